"""Bad input is told to whoever gave it, names the cause and the fix, and stops nobody else."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from cli.demo import workload
from cli.demo.scenarios import SCENARIOS
from cli.demo.workload import DEPLOYMENTS
from shared.errors import InvalidObject
from shared.kube.resources import AWS_NODE_TEMPLATES, PODS, PROVISIONERS
from tests.support.stories.playground import TTL_SECONDS, Playground, until

pytestmark = pytest.mark.e2e


async def assert_other_pods_run(playground: Playground) -> None:
    """Ten pods that ask for a spot node get one."""
    if not (await playground.kube.list(PROVISIONERS, field_selector="metadata.name=default")).items:
        cluster = playground.environment.cluster_name
        await workload.apply_pool(playground.kube, cluster, TTL_SECONDS)
    await playground.create(DEPLOYMENTS, workload.deployment(SCENARIOS["node-delete"]))
    await workload.scale(playground.kube, 10)

    async def all_run() -> bool:
        return (await playground.look()).running == 10

    await until(all_run, "10 pods run")


def big_pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "10000"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


async def test_an_unknown_operator_is_refused_when_it_is_applied(playground: Playground) -> None:
    """F28, P-05: the schema names field and allowed operators."""
    broken = workload.provisioner(TTL_SECONDS)
    broken["spec"]["requirements"][0]["operator"] = "Near"
    with pytest.raises(InvalidObject) as refused:
        await playground.kube.create(PROVISIONERS, broken)
    assert "spec.requirements[0].operator" in refused.value.message
    assert '"DoesNotExist", "Gt", "Lt"' in refused.value.message


async def test_what_only_we_can_check_is_named_on_its_pool_and_other_pools_go_on(
    playground: Playground,
) -> None:
    """F27, F28, P-16: the condition and the event name every faulty field."""
    broken = workload.provisioner(TTL_SECONDS)
    broken["metadata"]["name"] = "broken"
    broken["spec"]["labels"] = {"a.kubernetes.io/b": "a"}
    broken["spec"]["annotations"] = {"no such key": "a"}
    await playground.create(PROVISIONERS, broken)

    async def told() -> tuple[str, str]:
        condition = await playground.condition(PROVISIONERS, "broken", "Active")
        warnings = await playground.warnings("Provisioner", "broken")
        assert (condition["status"], len(warnings)) == ("False", 1)
        return condition["message"], warnings[0][1]

    condition, event = await until(told, "condition and event")
    for text in (condition, event):
        assert "spec.labels[a.kubernetes.io/b]: a.kubernetes.io/b is in a restricted domain" in text
        assert "spec.annotations[no such key]: 'no such key' is not a qualified name" in text
    await assert_other_pods_run(playground)
    assert {one.name.rpartition("-")[0] for one in (await playground.look()).machines} == {
        "default"
    }


async def test_a_pod_that_fits_nowhere_is_told_why_and_others_are_scheduled(
    playground: Playground,
) -> None:
    """SCH-110: the event Nominated; SCH-111: the event FailedScheduling."""
    await workload.apply_pool(playground.kube, playground.environment.cluster_name, TTL_SECONDS)
    await playground.create(PODS, big_pod("giant"))

    told = partial(failed_scheduling, playground, "giant", "no instance type")
    text = await until(told, "the pod is told")  # until the class is ready it is told that instead
    assert "default" in text
    assert "cpu" in text
    await assert_other_pods_run(playground)
    assert (await playground.kube.get(PODS, "giant", "default"))["status"]["phase"] == "Pending"


async def test_a_node_template_without_subnets_names_its_selector_and_its_pods_wait(
    playground: Playground,
) -> None:
    """T-12; once it is mended the pods run, without waiting for the timed look."""
    template = workload.node_template(playground.environment.cluster_name)
    right = template["spec"]["subnetSelector"]
    template["spec"]["subnetSelector"] = {"karpenter.sh/discovery": "nowhere"}
    await playground.create(AWS_NODE_TEMPLATES, template)
    await playground.create(PROVISIONERS, workload.provisioner(TTL_SECONDS))
    await playground.create(PODS, big_pod("waits") | {"spec": spot_pod()})

    async def told() -> tuple[str, str]:
        condition = await playground.condition(AWS_NODE_TEMPLATES, "default", "Ready")
        (warning,) = await playground.warnings("AWSNodeTemplate", "default")
        assert condition["status"] == "False"
        return condition["message"], warning[1]

    for text in await until(told, "condition and event"):
        assert "spec.subnetSelector" in text
        assert "karpenter.sh/discovery=nowhere" in text
    await until(partial(failed_scheduling, playground, "waits", "not ready"), "the pod is told")
    await playground.kube.patch(AWS_NODE_TEMPLATES, "default", {"spec": {"subnetSelector": right}})

    async def machine_is_there() -> bool:
        return bool((await playground.look()).machines)

    await until(machine_is_there, "a Machine for the pod")


def spot_pod() -> dict[str, Any]:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    return {"containers": [container], "nodeSelector": {"karpenter.sh/capacity-type": "spot"}}


async def failed_scheduling(playground: Playground, pod: str, words: str) -> str:
    """The message of an event with these words; empty while there is none."""
    warnings = await playground.warnings("Pod", pod)
    told = (text for reason, text in warnings if reason == "FailedScheduling" and words in text)
    return next(told, "")
