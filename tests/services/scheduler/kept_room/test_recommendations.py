"""Room for pods whose size a VerticalPodAutoscaler writes, on real Redis and a real API server (POD-12)."""

from __future__ import annotations

from shared.domain.workloads.capacity_buffers import PodTemplate
from shared.domain.workloads.pods import RequestParts
from shared.domain.workloads.recommendations import Recommendation
from shared.kube.client import Kube
from tests.services.scheduler.conftest import Scheduler, machines, pool_of
from tests.services.scheduler.kept_room.test_buffers import created
from tests.support.planning.builders import amounts, make_pod


async def test_a_buffer_of_a_deployment_has_the_size_that_new_pods_will_have(
    scheduler: Scheduler, kube: Kube
) -> None:
    parts = RequestParts({"main": amounts(cpu="1")})
    template = PodTemplate("Deployment", "default", "web", make_pod("web", cpu="1", parts=parts))
    target = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    buffer = await created(kube, podTemplateRef=None, scalableRef=target, replicas=1)
    advice = Recommendation("default", "web", "Deployment", "web", {"main": amounts(cpu="3500m")})
    await scheduler.show(
        nodepools=[await pool_of(kube)],
        capacitybuffers=[buffer],
        podtemplates=[template],
        verticalpodautoscalers=[advice],
    )
    await scheduler.plan()
    (bought,) = await machines(kube)
    assert bought["spec"]["resources"]["requests"]["cpu"] == "3500m"
