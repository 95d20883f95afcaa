"""Why a node is still there: ``POST /explain``."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from services.scheduler.status.explain import NOT_EVALUATED, STANDBY
from shared.disruption.pod_blocks import ANNOTATED
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_EMPTY, WHEN_UNDERUTILIZED
from shared.domain.workloads.capacity_buffers import CapacityBuffer, PodTemplate
from tests.services.scheduler.conftest import Scheduler
from tests.support.planning.builders import make_node_class, make_pod, make_pool
from tests.support.planning.disruption import make_running, pods_on


async def ask(scheduler: Scheduler, node: str) -> tuple[int, Any]:
    found = await scheduler.parts.explainer.answer(orjson.dumps({"node": node}), {})
    return found.status, orjson.loads(found.body)


async def shown(scheduler: Scheduler, policy: str = WHEN_UNDERUTILIZED, **pod: Any) -> None:
    """One large v1 node with a pod on the mirror; nothing of it exists on the API server."""
    pool = make_pool(generation_api=V1, consolidation_policy=policy, consolidate_after_seconds=0.0)
    running = make_running("n1", "m5.x016", pool=pool)
    await scheduler.show(
        nodepools=[pool],
        nodeclasses=[make_node_class(generation_api=V1)],
        machines=[running.machine],
        nodes=[running.node],
        pods=pods_on("n1", 1, **pod),
    )


async def test_before_the_first_pass_it_says_so(scheduler: Scheduler) -> None:
    await shown(scheduler)
    status, found = await ask(scheduler, "n1")
    assert status == 200
    assert [one["text"] for one in found["staysBecause"]] == [NOT_EVALUATED]


async def test_a_standby_says_so_and_does_not_pass_for_the_leader(scheduler: Scheduler) -> None:
    """It has no pass of its own; a client asks again and comes to another replica."""
    await shown(scheduler)
    scheduler.parts.explainer.leading = lambda: False
    assert await ask(scheduler, "n1") == (503, {"error": STANDBY, "standby": True})


@pytest.mark.parametrize("name", ["n1", "machine-n1"])
async def test_a_pod_that_holds_its_node_is_named(scheduler: Scheduler, name: str) -> None:
    await shown(scheduler, do_not_disrupt="true")
    await scheduler.disruption.step()
    status, found = await ask(scheduler, name)
    assert (status, found["machine"]) == (200, "NodeClaim/machine-n1")
    assert found["candidate"]["blockingPod"] == "default/n1-pod-0"
    assert found["candidate"]["pricePerHour"] == pytest.approx(16 * 0.048)
    assert {"text": ANNOTATED, "pod": "default/n1-pod-0"}.items() <= found["staysBecause"][
        0
    ].items()


async def test_room_for_pods_to_come_is_named(scheduler: Scheduler) -> None:
    """GAT-02: no real pod is there."""
    await shown(scheduler, WHEN_EMPTY)
    buffer = CapacityBuffer("b", "default", "spare", template="web", replicas=2)
    template = PodTemplate("PodTemplate", "default", "web", make_pod("web"))
    await scheduler.show(
        gone=[("pods", "default/n1-pod-0")], capacitybuffers=[buffer], podtemplates=[template]
    )
    await scheduler.disruption.step()
    _, found = await ask(scheduler, "n1")
    assert found["pods"] == ["default/capacity-buffer-spare-1", "default/capacity-buffer-spare-2"]
    first = found["staysBecause"][0]
    assert first["text"] == "it keeps room for 2 pod(s) to come"
    assert first["change"].startswith("kubectl get capacitybuffers,provisioningrequests -A")


async def test_a_pool_that_says_no_is_named(scheduler: Scheduler) -> None:
    await shown(scheduler, WHEN_EMPTY)
    await scheduler.disruption.step()
    _, found = await ask(scheduler, "n1")
    assert "has consolidation policy WhenEmpty" in found["staysBecause"][0]["text"]


async def test_a_node_that_is_not_ours_is_not_known(scheduler: Scheduler) -> None:
    status, found = await ask(scheduler, "somebody")
    assert status == 404
    assert "somebody" in found["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"node": 3}'])
async def test_a_question_without_a_node_is_told_how_to_ask(
    scheduler: Scheduler, body: bytes
) -> None:
    found = await scheduler.parts.explainer.answer(body, {})
    assert found.status == 400
    assert b'"node"' in orjson.loads(found.body)["error"].encode()


async def test_a_node_says_when_it_grows_too_old(scheduler: Scheduler) -> None:
    """Of v1 the NodeClaim says it, of v1alpha5 the Provisioner."""
    new = make_pool(generation_api=V1, expire_seconds=None)
    old = make_pool("old", expire_seconds=90.0)
    claim = make_running("n1", pool=new, created_at=1000.0, expire_seconds=120.0)
    machine = make_running("n2", pool=old, created_at=1000.0)
    lasting = make_running("n3", pool=new)
    running = (claim, machine, lasting)
    await scheduler.show(
        nodepools=[new, old],
        machines=[one.machine for one in running],
        nodes=[one.node for one in running],
    )
    found = [(await ask(scheduler, name))[1]["expires"] for name in ("n1", "n2", "n3")]
    assert found == [
        {"at": 1120.0, "replacedFirst": False},
        {"at": 1090.0, "replacedFirst": True},
        None,
    ]
