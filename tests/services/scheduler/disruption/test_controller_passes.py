"""What users see of a pass over the cluster, and when the next one comes (DIS-01, CON-15), in both generations."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from services.scheduler.disruption.methods import Method
from shared.concurrency.clock import SystemClock
from shared.disruption.pod_blocks import ANNOTATED
from shared.disruption.records import Proposal
from shared.disruption.replacement_price import NOT_CHEAPER
from shared.domain.machines.machine import DRIFTED, Condition, Machine
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, Budget
from shared.domain.workloads.pods import Pod
from shared.kube.client import Kube
from shared.metrics import Metrics
from tests.services.scheduler.conftest import Scheduler
from tests.services.scheduler.disruption.test_commands import shown, store
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_node_class, make_pool
from tests.support.planning.disruption import make_cluster, make_running, make_world, pods_on

EACH_GENERATION = pytest.mark.parametrize("generation", [V1ALPHA5, V1])


async def evaluate(
    scheduler: Scheduler, generation: str, kind: str, **pods: tuple[Pod, ...]
) -> None:
    """One pass over nodes of this type with these pods, which are on the mirror only."""
    of = make_pool(
        generation_api=generation, consolidation_policy=WHEN_UNDERUTILIZED,
        consolidate_after_seconds=0.0, budgets=(Budget("100%"),),
    )  # fmt: skip
    running = [make_running(name, kind, pool=of) for name in pods]
    await scheduler.show(
        nodepools=[of],
        nodeclasses=[make_node_class(generation_api=generation)],
        machines=[one.machine for one in running],
        nodes=[one.node for one in running],
        pods=[pod for found in pods.values() for pod in found],
    )
    await scheduler.disruption.step()


async def explained(scheduler: Scheduler, node: str) -> Any:
    found = await scheduler.parts.explainer.answer(orjson.dumps({"node": node}), {})
    return orjson.loads(found.body)


@EACH_GENERATION
async def test_a_proposal_says_what_it_saves_moves_and_why(
    scheduler: Scheduler, generation: str, events: Any
) -> None:
    """CON-15, and the node beside it says why it stays: in status, in explain and as events."""
    held = pods_on("n3", 1, do_not_disrupt="true")
    await evaluate(
        scheduler, generation, "m5.x008", n1=pods_on("n1", 3), n2=pods_on("n2", 3), n3=held
    )
    status: Any = scheduler.disruption.status()
    (proposal,) = status["waitingForASecondLook"]
    assert proposal["reason"] == "Underutilized"
    assert proposal["text"].startswith("delete 2 node(s), moving 6 pod(s), saving $")
    assert (await explained(scheduler, "n1"))["proposal"] == proposal["text"]
    stays = await explained(scheduler, "n3")
    assert stays["proposal"] == ""
    assert ANNOTATED in {one["text"] for one in stays["staysBecause"]}
    assert any(ANNOTATED in texts for texts in status["stay"].values())
    names = [name for reason, name in await events() if reason == "ConsolidationCandidate"]
    assert names == ["machine-n1", "machine-n2", "n1", "n2"]


@EACH_GENERATION
async def test_a_node_that_costs_what_its_pods_are_worth_says_so(
    scheduler: Scheduler, generation: str, events: Any
) -> None:
    """CON-05: the price of a replacement."""
    await evaluate(scheduler, generation, "m5.x002", n1=pods_on("n1", 3))
    assert scheduler.disruption.status()["waitingForASecondLook"] == []
    (why,) = (await explained(scheduler, "n1"))["staysBecause"]
    assert (why["method"], why["event"], why["text"]) == (
        "single-node", "Unconsolidatable", NOT_CHEAPER,
    )  # fmt: skip
    assert scheduler.disruption.status()["stay"]["single-node"] == {NOT_CHEAPER: 1}  # type: ignore[index]
    assert ("Unconsolidatable", "n1") in await events()


@EACH_GENERATION
async def test_a_pass_that_ends_early_hides_no_reason(
    scheduler: Scheduler, generation: str
) -> None:
    """DIS-11: an empty node goes first, so consolidation is not asked about the other."""
    held = pods_on("n2", 1, do_not_disrupt="true")
    await evaluate(scheduler, generation, "m5.x008", n1=(), n2=held)
    status: Any = scheduler.disruption.status()
    (proposal,) = status["waitingForASecondLook"]
    assert "delete 1 empty node(s), moving 0 pod(s), saving $" in proposal["text"]
    (why,) = (await explained(scheduler, "n2"))["staysBecause"]
    assert (why["text"], why["pod"]) == (ANNOTATED, "default/n2-pod-0")


@EACH_GENERATION
async def test_a_second_look_approves_or_rejects(
    scheduler: Scheduler, generation: str, events: Any, metrics: Metrics
) -> None:
    """CON-11, CON-15: on the node and on its machine."""
    pods = {name: pods_on(name, 3) for name in ("n1", "n2", "n3")}
    await evaluate(scheduler, generation, "m5.x008", **pods)
    await scheduler.show(pods=[replace(pods["n1"][0], do_not_disrupt="true")])
    await scheduler.disruption.step()
    found = await events()
    names = [name for reason, name in found if reason == "ConsolidationCandidate"]
    assert {"n1", "machine-n1"} <= set(names)
    assert [name for reason, name in found if reason == "ConsolidationRejected"] == names
    await scheduler.show(pods=pods["n1"])
    await scheduler.disruption.step()
    await scheduler.disruption.step()
    found = await events()
    assert [name for reason, name in found if reason == "ConsolidationApproved"] == names
    decided = metrics.decisions_by_nodepool.labels("delete", "underutilized", "default")
    assert decided._value.get() == 1


async def test_a_pass_that_does_not_reach_every_node_is_counted(
    scheduler: Scheduler, metrics: Metrics
) -> None:
    """CON-10: order of single-machine consolidation; MET-06: metrics of disruption."""
    method = Method("single-node", lambda _: Proposal(unseen=("NodeClaim/n1",)))
    await scheduler.disruption._propose(method, make_world(make_cluster([])), V1)
    assert metrics.consolidation_timeouts.labels("single-node")._value.get() == 1


async def test_after_a_command_the_next_look_comes_at_once_and_else_after_its_period(
    scheduler: Scheduler, kube: Kube
) -> None:
    """DIS-01: no time passes here but where it is said."""
    of = make_pool(generation_api=V1, consolidate_after_seconds=None, budgets=(Budget("100%"),))
    for name in ("n1", "n2", "n3"):
        await store(kube, make_running(name, pool=of))
    await scheduler.show(nodepools=[of], nodeclasses=[make_node_class(generation_api=V1)])
    claims = list((await shown(scheduler, kube)).values())
    disruption = scheduler.disruption
    clock = FakeClock(seconds=SystemClock().monotonic(), wall=SystemClock().now())
    disruption.clock = clock
    disruption.settings = replace_setting(disruption.settings, disruption_period=10.0)
    await scheduler.show(machines=[drifted(claim) for claim in claims[:2]])
    for deleted in (1, 2):
        await disruption.step()
        assert len(disruption.actions._deleted) == deleted
    await disruption.step()
    await scheduler.show(machines=[drifted(claims[2])])
    await disruption.step()
    assert len(disruption.actions._deleted) == 2
    clock.advance(10.0)
    await disruption.step()
    assert len(disruption.actions._deleted) == 3


def replace_setting(settings: Any, **changes: Any) -> Any:
    """The settings of a service with these values."""
    return settings.model_copy(update=changes)


def drifted(machine: Machine) -> Machine:
    assert machine.key.startswith("NodeClaim/")
    condition = Condition("True", "NodePoolDrifted", "", 1.0)
    return replace(machine, conditions={**machine.conditions, DRIFTED: condition})
