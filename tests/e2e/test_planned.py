"""``dovetail plan`` against a running stack: what it says is what happens once the manifests are applied."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shared.domain import labels as keys
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.playground import Playground, ShellKubectl, is_leaving, until
from tests.support.stories.scale_down import Json, Pool, family, hourly

pytestmark = [
    pytest.mark.e2e,
    NEEDS_KUBECTL,
]
TWO_CORES = {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["2"]}
LABELLED = {"labels": {"team": "a"}}


async def pool_of_two(playground: Playground, kubectl: ShellKubectl) -> Pool:
    """Two pods on two nodes of two cores; a drifted machine goes only when no other one is going."""
    pool = Pool(playground, kubectl, "NodePool", "planned")
    await pool.apply_class()
    await pool.apply(
        [*family("m5"), TWO_CORES],
        disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]},
    )
    await pool.run(2)
    await pool.serving(2, nodes=2)
    return pool


async def manifest(kubectl: ShellKubectl, change: Callable[[Json], None]) -> Json:
    """The pool as it is stored, changed as an editor would."""
    found: Json = json.loads(await kubectl("get", "nodepool", "planned", "-o", "json"))
    found["metadata"] = {"name": "planned"}
    del found["status"]
    change(found["spec"])
    return found


async def planned(playground: Playground, document: Json, *words: str) -> tuple[int, Json]:
    """(exit code, answer) of the command."""
    directory = str(playground.stack.directory)
    done = await asyncio.to_thread(
        subprocess.run,
        [
            sys.executable, "-m", "cli.main", "plan", "-f", "-", "-o", "json",
            "--directory", directory, *words,
        ],
        input=json.dumps(document), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


async def order_of_removal(pool: Pool, done: Callable[[], Awaitable[Any]]) -> list[str]:
    """Keys of machines in the order in which they begin to go, until ``done`` holds."""
    order: dict[str, None] = {}
    known: set[str] = set()

    async def look() -> bool:
        machines = await pool.machines()
        names = {one["metadata"]["name"] for one in machines}
        leaving = {one["metadata"]["name"] for one in machines if is_leaving(one)}
        order.update(dict.fromkeys(sorted(leaving | (known - names))))
        known.update(names)
        return bool(await done())

    await until(look, "the plan is carried out", show=lambda: list(order))
    return [f"NodeClaim/{name}" for name in order]


async def test_drift_happens_as_planned(playground: Playground, kubectl: ShellKubectl) -> None:
    """The same machines in the same order, one at a time, and the same price."""
    pool = await pool_of_two(playground, kubectl)
    unchanged = await manifest(kubectl, lambda spec: None)
    assert (await planned(playground, unchanged))[0] == 0
    changed = await manifest(kubectl, lambda spec: spec["template"].update(metadata=LABELLED))
    code, answer = await planned(playground, changed)
    assert code == 2
    expected = [one["machine"] for one in answer["machines"]]
    assert {one["drift"] for one in answer["machines"]} == {"NodePoolDrifted"}
    await kubectl.apply(changed)

    async def labelled() -> bool:
        nodes = await pool.nodes()
        new = [one for one in nodes if one["metadata"]["labels"].get("team") == "a"]
        return len(nodes) == len(new) == 2

    assert await order_of_removal(pool, labelled) == expected
    await pool.serving(2, nodes=2)
    assert hourly(await playground.look()) == pytest.approx(answer["cost"]["after"])


@pytest.mark.nightly
async def test_a_requirement_happens_as_planned(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """Another family: every machine is replaced, by the planned types at the planned price."""
    pool = await pool_of_two(playground, kubectl)
    changed = await manifest(
        kubectl,
        lambda spec: spec["template"]["spec"].update(requirements=[*family("c5"), TWO_CORES]),
    )
    _, answer = await planned(playground, changed)
    expected = [one["machine"] for one in answer["machines"]]
    types = {new["instanceType"] for one in answer["machines"] for new in one["replacements"]}
    assert {one["drift"] for one in answer["machines"]} == {"RequirementsDrifted"}
    await kubectl.apply(changed)

    async def replaced() -> bool:
        nodes = await pool.nodes()
        return len(nodes) == 2 and {kind_of(one) for one in nodes} == types

    assert await order_of_removal(pool, replaced) == expected
    await pool.serving(2, nodes=2)
    assert hourly(await playground.look()) == pytest.approx(answer["cost"]["after"])


@pytest.mark.nightly
async def test_consolidation_happens_as_planned(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """Larger types allowed and consolidation switched on: the same machines go, and the price is the planned one."""
    pool = await pool_of_two(playground, kubectl)

    def larger(spec: Json) -> None:
        spec["template"]["spec"]["requirements"] = family("m5")
        spec["disruption"] = {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "0s",
            "budgets": [{"nodes": "100%"}],
        }

    await pool.scale(1)
    await until(pool_has_one_pod(pool), "one pod runs")
    changed = await manifest(kubectl, larger)
    code, answer = await planned(playground, changed)
    assert code == 2
    gone = {one["machine"] for one in answer["machines"]}
    before = {f"NodeClaim/{one['metadata']['name']}" for one in await pool.machines()}
    await kubectl.apply(changed)
    left = len(before - gone)
    await pool.serving(1, nodes=max(1, left))
    after = {f"NodeClaim/{one['metadata']['name']}" for one in await pool.machines()}
    assert before - after == gone & before
    assert hourly(await playground.look()) == pytest.approx(answer["cost"]["after"])


def pool_has_one_pod(pool: Pool) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return len(await pool.pods()) == 1

    return look


@pytest.mark.nightly
async def test_a_limit_happens_as_planned(playground: Playground, kubectl: ShellKubectl) -> None:
    """Below what the pool has: nothing is disrupted, and a pod that could not be placed again is one too many."""
    pool = await pool_of_two(playground, kubectl)
    changed = await manifest(kubectl, lambda spec: spec.update(limits={"cpu": "2"}))
    code, answer = await planned(playground, changed, "--fail-on", "unschedulable>0")
    assert code == 1
    assert answer["machines"] == []
    assert len(answer["unschedulable"]) == 1
    await kubectl.apply(changed)
    await kubectl("scale", "deployment", "planned", "--replicas=3")
    assert answer["unschedulable"][0]["pod"].startswith("default/planned-")

    async def one_waits() -> bool:
        running = [one for one in await pool.pods() if one["spec"].get("nodeName")]
        return len(running) == 2 and len(await pool.pods()) == 3

    await until(one_waits, "the third pod waits")
    assert len(await pool.nodes()) == 2


def kind_of(node: Json) -> str:
    return str(node["metadata"]["labels"][keys.INSTANCE_TYPE])
