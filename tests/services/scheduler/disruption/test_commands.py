"""Disruption commands against a real API server: taint, replacement, wait, delete, roll back, crash (EXE-01..08)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.scheduler.disruption.commands import Commands
from services.scheduler.disruption.controller import Disruption
from shared.api.core.nodes import parse_node, taint_objects
from shared.api.v1.node_claims import parse_node_claim
from shared.disruption.records import Command, World
from shared.domain import labels as keys
from shared.domain.machines.commands import CommandRecord, holder, written
from shared.domain.machines.machine import CONSOLIDATABLE, DISRUPTION_REASON, INITIALIZED, Machine
from shared.domain.nodes import DISRUPTED
from shared.domain.pools.generations import GENERATIONS, V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, Budget
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.resources import EVENTS, NODE_CLAIMS, NODES
from shared.redis import streams
from shared.redis.messages import LaunchMachine, TerminateMachine
from tests.services.scheduler.conftest import Scheduler
from tests.support.metrics.pages import Scraped
from tests.support.planning.builders import make_node_class, make_pool
from tests.support.planning.disruption import Running, make_running, pods_on

POOL = make_pool(
    generation_api=V1,
    consolidation_policy=WHEN_UNDERUTILIZED,
    consolidate_after_seconds=0.0,
    expire_seconds=None,
)
SINCE = "2026-01-01T00:00:00Z"


def stored_claim(running: Running) -> dict[str, Any]:
    machine = running.machine
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": machine.name,
            "labels": machine.labels,
            "finalizers": [keys.FINALIZER],
        },
        "spec": {
            "requirements": [],
            "nodeClassRef": {
                "group": "karpenter.k8s.aws",
                "kind": "EC2NodeClass",
                "name": "default",
            },
            "expireAfter": "Never",
        },
    }


def status_of(running: Running) -> dict[str, Any]:
    names = ("Launched", "Registered", INITIALIZED, CONSOLIDATABLE)
    return {
        "nodeName": running.node.name,
        "providerID": running.machine.provider_id,
        "conditions": [
            {"type": n, "status": "True", "reason": n, "message": "", "lastTransitionTime": SINCE}
            for n in names
        ],
    }


async def first_command(disruption: Disruption) -> tuple[Command, World]:
    """What a pass finds, and what it was found in."""
    schedule = disruption._schedules[GENERATIONS[V1]]
    evaluation = await disruption._evaluation(GENERATIONS[V1], schedule)
    assert evaluation is not None
    found = await disruption._first_command(evaluation, schedule)
    assert found is not None
    return found.command, evaluation.world


async def store(kube: Kube, running: Running) -> None:
    """The NodeClaim and its Node on the API server."""
    await kube.create(NODE_CLAIMS, stored_claim(running))
    body = {"status": status_of(running)}
    await kube.patch(NODE_CLAIMS, running.machine.name, body, subresource="status")
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": running.node.name, "labels": running.node.labels},
        "spec": {
            "providerID": running.node.provider_id,
            "taints": taint_objects(running.node.taints),
        },
    }
    await kube.create(NODES, node)


async def shown(scheduler: Scheduler, kube: Kube) -> dict[str, Machine]:
    """Every stored claim and node, put in the mirror. Claims by name."""
    claims = [parse_node_claim(raw) for raw in (await kube.list(NODE_CLAIMS)).items]
    nodes = [parse_node(raw) for raw in (await kube.list(NODES)).items]
    full = [replace(n, allocatable=SIZE, capacity=SIZE, ready=True) for n in nodes]
    await scheduler.show(machines=claims, nodes=full)
    return {claim.name: claim for claim in claims}


LARGE = make_running("large", "m5.x016", pool=POOL)
SIZE = LARGE.node.allocatable


@pytest.fixture
async def oversized(scheduler: Scheduler, kube: Kube) -> Scheduler:
    """A 16-core node with two small pods: to be replaced by one of 2 cores."""
    await scheduler.show(
        nodepools=[POOL],
        nodeclasses=[make_node_class(generation_api=V1)],
        pods=pods_on("large", 2),
    )
    await store(kube, LARGE)
    await shown(scheduler, kube)
    return scheduler


async def tainted(kube: Kube, name: str = "large") -> bool:
    return DISRUPTED in parse_node(await kube.get(NODES, name)).taints


async def begun(scheduler: Scheduler, kube: Kube) -> Machine:
    """The command has started; its replacement."""
    await scheduler.disruption.step()
    await scheduler.disruption.step()
    claims = await shown(scheduler, kube)
    (replacement,) = [claim for name, claim in claims.items() if name != LARGE.machine.name]
    return replacement


async def initialise(kube: Kube, name: str) -> None:
    body = {"status": {"conditions": [condition(INITIALIZED)]}}
    await kube.patch(NODE_CLAIMS, name, body, subresource="status")


def condition(name: str) -> dict[str, str]:
    return {
        "type": name,
        "status": "True",
        "reason": "x",
        "message": "",
        "lastTransitionTime": SINCE,
    }


async def is_deleted(kube: Kube, name: str = LARGE.machine.name) -> bool:
    try:
        return bool((await kube.get(NODE_CLAIMS, name))["metadata"].get("deletionTimestamp"))
    except NotFound:
        return True


async def test_a_replacement_is_ready_before_the_old_node_goes(
    oversized: Scheduler, kube: Kube, published: Any, events: Any
) -> None:
    """EXE-02: order of a command's steps (EXE-04, EXE-06)."""
    replacement = await begun(oversized, kube)
    assert await tainted(kube)
    assert not await is_deleted(kube)
    (launch,) = await published(streams.LAUNCHES)
    assert launch == LaunchMachine(machine=replacement.key)
    old = parse_node_claim(await kube.get(NODE_CLAIMS, LARGE.machine.name))
    assert old.has(DISRUPTION_REASON)
    await oversized.disruption.step()
    assert not await is_deleted(kube)
    await initialise(kube, replacement.name)
    await shown(oversized, kube)
    await oversized.disruption.step()
    assert await is_deleted(kube)
    (order,) = await published(streams.TERMINATIONS)
    assert order == TerminateMachine(
        kind="NodeClaim", name=LARGE.machine.name, reason="underutilized"
    )
    published_events = set(await events())
    assert {"DisruptionLaunching", "DisruptionWaitingReadiness"} <= {
        reason for reason, _ in published_events
    }
    ended = {("DisruptionTerminating", name) for name in (LARGE.machine.name, LARGE.node.name)}
    assert ended <= published_events
    said = {
        one["involvedObject"]["kind"]: one["message"]
        for one in (await kube.list(EVENTS)).items
        if one["reason"] == "DisruptionTerminating"
    }
    assert said == {
        "NodeClaim": "Disrupting NodeClaim: Underutilized/Replace",
        "Node": "Disrupting Node: Underutilized",
    }
    metrics = oversized.disruption.reporter.metrics
    assert metrics.pods_disrupted.labels("underutilized")._value.get() == 2


async def test_another_scheduler_goes_on_with_the_command(oversized: Scheduler, kube: Kube) -> None:
    """Design 3.4: the record is on the objects."""
    replacement = await begun(oversized, kube)
    await initialise(kube, replacement.name)
    await shown(oversized, kube)
    forget(oversized.commands)
    await oversized.commands.step()
    assert await is_deleted(kube)
    assert not await is_deleted(kube, replacement.name)


async def test_a_machine_that_was_just_deleted_is_in_no_second_command(
    oversized: Scheduler, kube: Kube, published: Any
) -> None:
    """EXE-08: the mirror shows it as it was for a moment; it uses up its pool's budget all the same."""
    replacement = await begun(oversized, kube)
    await initialise(kube, replacement.name)
    claims = await shown(oversized, kube)
    for _ in range(4):
        await oversized.disruption.step()
    assert await is_deleted(kube)
    assert oversized.commands.busy() == {claims[LARGE.machine.name].uid}
    assert len(await published(streams.TERMINATIONS)) == 1


async def test_budgets_are_shown_with_what_uses_them_up(
    oversized: Scheduler, kube: Kube, events: Any
) -> None:
    """DIS-24, DIS-25, ACC-67: a schedule that is none allows nothing, of which the pool gets an event; a node that
    is down counts."""
    broken = Budget("100%", schedule="61 25 * * *", duration_seconds=60.0)
    await oversized.show(nodepools=[replace(POOL, budgets=(broken,))])
    for _ in range(3):
        await oversized.disruption.step()
    assert not await tainted(kube)
    assert ("DisruptionBlocked", POOL.name) in await events()
    metrics = oversized.disruption.reporter.metrics
    which = {"nodepool": POOL.name, "reason": "Underutilized"}
    eligible = "karpenter_voluntary_disruption_eligible_nodes"
    scraped = Scraped(metrics.text())
    assert scraped.value("karpenter_nodepools_allowed_disruptions", **which) == 0
    assert scraped.value("karpenter_nodepools_nodes_consuming_budgets", **which) == 0
    assert scraped.value(eligible, reason="underutilized") == 1
    node = replace(parse_node(await kube.get(NODES, "large")), allocatable=SIZE, ready=False)
    await oversized.show(nodes=[node])
    await oversized.disruption.step()
    scraped = Scraped(metrics.text())
    assert scraped.value("karpenter_nodepools_nodes_consuming_budgets", **which) == 1


async def test_a_machine_that_another_command_holds_is_left_to_it(
    oversized: Scheduler, kube: Kube
) -> None:
    """EXE-08: our picture does not show it yet; to give up takes nothing of the other's back."""
    other = CommandRecord("c0", "drift", "Drifted", (LARGE.machine.key,), ("NodeClaim/new",), 1.0)
    note = {"metadata": {"annotations": {keys.COMMAND_ANNOTATION: written(other)}}}
    await kube.patch(NODE_CLAIMS, LARGE.machine.name, note)
    await kube.patch(NODES, "large", {"spec": {"taints": taint_objects((DISRUPTED,))}})
    disruption = oversized.disruption
    found, world = await first_command(disruption)
    assert not await disruption.commands.start(found, "1", world)
    assert await tainted(kube)
    stored = parse_node_claim(await kube.get(NODE_CLAIMS, LARGE.machine.name))
    assert holder(stored) == other
    assert len((await kube.list(NODE_CLAIMS)).items) == 1


async def test_a_command_that_was_cut_off_is_taken_back_with_what_it_made(
    oversized: Scheduler, kube: Kube
) -> None:
    """EXE-03, EXE-05: also a replacement that the picture does not show yet."""
    replacement = await begun(oversized, kube)
    old = parse_node_claim(await kube.get(NODE_CLAIMS, LARGE.machine.name))
    record = holder(old)
    assert record is not None
    half = {keys.COMMAND_ANNOTATION: written(replace(record, created=False))}
    await kube.patch(NODE_CLAIMS, old.name, {"metadata": {"annotations": half}})
    await shown(oversized, kube)
    await oversized.hide("machines", replacement.key)
    oversized.view.created.clear()
    forget(oversized.commands)
    await oversized.commands.step()
    assert not await tainted(kube)
    assert await is_deleted(kube, replacement.name)
    assert not await is_deleted(kube)


def forget(commands: Commands) -> None:
    """What a restart leaves: nothing in memory."""
    commands._written.clear()
    commands._targets.clear()


async def test_a_lost_replacement_puts_the_old_node_back_to_work(
    oversized: Scheduler, kube: Kube
) -> None:
    """ACC-74, EXE-05: no taint, no record, no reason."""
    replacement = await begun(oversized, kube)
    await kube.patch(NODE_CLAIMS, replacement.name, {"metadata": {"finalizers": None}})
    await kube.delete(NODE_CLAIMS, replacement.name)
    await oversized.hide("machines", replacement.key)
    oversized.view.created.clear()
    await oversized.commands.step()
    assert not await tainted(kube)
    old = parse_node_claim(await kube.get(NODE_CLAIMS, LARGE.machine.name))
    assert keys.COMMAND_ANNOTATION not in old.annotations
    assert not old.has(DISRUPTION_REASON)
    assert not await is_deleted(kube)


async def test_a_command_that_cannot_begin_is_taken_back(oversized: Scheduler, kube: Kube) -> None:
    """EXE-03: its node is gone from the API server, though not from the mirror."""
    await kube.delete(NODES, "large")
    await oversized.disruption.step()
    await oversized.disruption.step()
    claims = (await kube.list(NODE_CLAIMS)).items
    assert [claim["metadata"]["name"] for claim in claims] == [LARGE.machine.name]
    assert not (claims[0]["metadata"].get("annotations") or {}).get(keys.COMMAND_ANNOTATION)


async def test_a_stray_taint_is_taken_off(oversized: Scheduler, kube: Kube) -> None:
    """DIS-02, ACC-81: fail-over mid-command."""
    await kube.patch(NODES, "large", {"spec": {"taints": taint_objects((DISRUPTED,))}})
    await shown(oversized, kube)
    await oversized.commands.clean()
    assert not await tainted(kube)


async def test_a_machine_is_in_one_command_only(oversized: Scheduler, kube: Kube) -> None:
    """EXE-08: one command per machine."""
    await begun(oversized, kube)
    for _ in range(3):
        await oversized.disruption.step()
    assert len((await kube.list(NODE_CLAIMS)).items) == 2
    assert len(oversized.commands.records()) == 1


async def test_the_kill_switch_stops_everything_voluntary(oversized: Scheduler, kube: Kube) -> None:
    await oversized.show(nodepools=[replace(POOL, disruption_off=True)])
    for _ in range(3):
        await oversized.disruption.step()
    assert not await tainted(kube)
    assert len((await kube.list(NODE_CLAIMS)).items) == 1


async def test_a_replacement_never_bears_the_name_of_what_it_replaces(
    oversized: Scheduler, kube: Kube
) -> None:
    """A plan for the same pods names its machine as the first plan did: the old one must not pass for its own
    replacement, ready at once."""
    disruption = oversized.disruption
    found, world = await first_command(disruption)
    (planned,) = found.replacements
    same_name = replace(found, replacements=(replace(planned, name=LARGE.machine.name),))
    assert await disruption.commands.start(same_name, "2", world)
    await shown(oversized, kube)
    await disruption.commands.step()
    assert not await is_deleted(kube)
    assert len((await kube.list(NODE_CLAIMS)).items) == 2


@pytest.mark.parametrize("switch", ["pool", "setting"])
async def test_the_kill_switch_takes_back_what_has_deleted_nothing_yet(
    oversized: Scheduler, kube: Kube, switch: str
) -> None:
    """The node is open again, and its replacement goes unless it is ready."""
    replacement = await begun(oversized, kube)
    if switch == "pool":
        await oversized.show(nodepools=[replace(POOL, disruption_off=True)])
    else:
        vars(oversized.planner.settings)["disruption"] = "off"
    await oversized.disruption.step()
    assert not await tainted(kube)
    assert not await is_deleted(kube)
    assert await is_deleted(kube, replacement.name)
