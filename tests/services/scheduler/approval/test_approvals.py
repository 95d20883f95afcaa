"""Commands of pools that require approval, on the real Redis and API server."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from services.scheduler.approval.approvals import UNASKED_SECONDS, Approvals
from services.scheduler.approval.documents import report
from services.scheduler.approval.endpoint import ApprovalEndpoint
from shared.concurrency.clock import Clock
from shared.disruption.approval import (
    GONE,
    MOST_OFFERS,
    Answer,
    Outcome,
    offer_of,
    requiring_pools,
)
from shared.disruption.records import Candidate, Command, World
from shared.domain.machines.machine import DRIFTED, Machine
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import APPROVABLE, Budget, NodePool
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.runtime.services import CALLER
from tests.services.scheduler.conftest import Later, Scheduler, incarnation
from tests.services.scheduler.disruption.test_commands import shown, store
from tests.services.scheduler.disruption.test_controller_passes import drifted
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_node_class, make_pool
from tests.support.planning.disruption import make_running, pods_on

ALL = (Budget("100%"),)


def requiring(**changes: Any) -> NodePool:
    fields: dict[str, Any] = {
        "generation_api": V1, "consolidate_after_seconds": None, "budgets": ALL, "approval": APPROVABLE,
    }  # fmt: skip
    return make_pool(**{**fields, **changes})


async def with_drift(scheduler: Scheduler, kube: Kube, *pools: NodePool) -> dict[str, Machine]:
    """One drifted node without pods in each pool; claims by the name of their pool."""
    for pool in pools:
        await store(kube, make_running(f"of-{pool.name}", pool=pool))
    await scheduler.show(nodepools=pools, nodeclasses=[make_node_class(generation_api=V1)])
    claims = await shown(scheduler, kube)
    await scheduler.show(machines=[drifted(claim) for claim in claims.values()])
    return {claim.pool: claim for claim in claims.values()}


def deleted(scheduler: Scheduler) -> set[str]:
    return scheduler.disruption.actions.deleted(scheduler.view.machines())


def approvals_of(scheduler: Scheduler) -> Approvals:
    return scheduler.disruption.approvals


def waiting(scheduler: Scheduler) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report(approvals_of(scheduler).offers.values())["waiting"]
    return found


def ended(scheduler: Scheduler) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report(approvals_of(scheduler).offers.values())["ended"]
    return found


async def respond(
    scheduler: Scheduler, id_: str, approved: bool, who: str = "ann", **body: Any
) -> tuple[int, Any]:
    """By the endpoint, as a caller that the API server knows."""
    endpoint = ApprovalEndpoint(approvals_of(scheduler), scheduler.disruption.clock)
    sent = orjson.dumps({"approved": approved, **body})
    answer = await endpoint.answer(sent, {"id": id_, CALLER: who})
    return answer.status, orjson.loads(answer.body)


async def test_without_an_answer_nothing_happens_and_an_event_says_so(
    scheduler: Scheduler, kube: Kube, events: Any, metrics: Metrics
) -> None:
    await with_drift(scheduler, kube, requiring())
    for _ in range(3):
        await scheduler.disruption.step()
    (one,) = waiting(scheduler)
    assert deleted(scheduler) == set()
    assert (one["outcome"], one["pools"], one["answer"]) == ("waiting", ["NodePool/default"], None)
    assert [machine["node"] for machine in one["goes"]] == ["of-default"]
    assert ("ApprovalRequired", "default") in await events()
    gauge = metrics.approvals_waiting._gauge.labels("default", "Drifted")
    assert gauge._value.get() == 1


async def test_an_approved_command_starts_once_and_who_approved_is_kept(
    scheduler: Scheduler, kube: Kube, events: Any
) -> None:
    claims = await with_drift(scheduler, kube, requiring())
    await scheduler.disruption.step()
    (one,) = waiting(scheduler)
    status, _ = await respond(scheduler, one["id"], True, who="ann@example.com", reason="go")
    assert status == 200
    await scheduler.disruption.step()
    assert deleted(scheduler) == {claims["default"].uid}
    assert waiting(scheduler) == []
    (done,) = ended(scheduler)
    assert done["outcome"] == "started"
    answer = done["answer"]
    assert (answer["who"], answer["verified"], answer["reason"]) == ("ann@example.com", True, "go")
    assert ("ApprovalAnswered", "default") in await events()


async def test_nobody_answers_under_a_name_that_the_api_server_did_not_give(
    scheduler: Scheduler, kube: Kube
) -> None:
    """The credential was admitted, and the API server was gone when its user was to be read."""
    await with_drift(scheduler, kube, requiring())
    await scheduler.disruption.step()
    (one,) = waiting(scheduler)
    status, _ = await respond(scheduler, one["id"], True, who="", user="root")
    assert status == 503
    (still,) = waiting(scheduler)
    assert still["answer"] is None


async def test_a_rejected_command_does_not_start_and_is_not_asked_again_at_once(
    scheduler: Scheduler, kube: Kube
) -> None:
    await with_drift(scheduler, kube, requiring())
    await scheduler.disruption.step()
    (one,) = waiting(scheduler)
    assert (await respond(scheduler, one["id"], False, reason="not now"))[0] == 200
    for _ in range(3):
        await scheduler.disruption.step()
    assert deleted(scheduler) == set()
    (still,) = waiting(scheduler)
    assert (still["id"], still["outcome"]) == (one["id"], "rejected")


async def test_a_pool_that_asks_does_not_hold_up_the_others(
    scheduler: Scheduler, kube: Kube
) -> None:
    claims = await with_drift(scheduler, kube, requiring(), requiring(name="free", approval=()))
    for _ in range(3):
        await scheduler.disruption.step()
    assert deleted(scheduler) == {claims["free"].uid}
    assert len(waiting(scheduler)) == 1


async def test_the_next_leader_goes_on_with_offers_and_answers(
    scheduler: Scheduler, kube: Kube, bus: Bus, metrics: Metrics, recorder: Recorder
) -> None:
    claims = await with_drift(scheduler, kube, requiring())
    await scheduler.disruption.step()
    (one,) = waiting(scheduler)
    await respond(scheduler, one["id"], True)
    parts = incarnation(kube, bus, scheduler.reader, metrics, recorder)
    await parts.disruption.step()
    gone = parts.disruption.actions.deleted(scheduler.view.machines())
    assert gone == {claims["default"].uid}


async def test_an_approved_command_that_is_not_right_any_more_is_dropped(
    scheduler: Scheduler, kube: Kube, events: Any
) -> None:
    claims = await with_drift(scheduler, kube, requiring())
    await scheduler.disruption.step()
    (one,) = waiting(scheduler)
    await respond(scheduler, one["id"], True)
    await scheduler.show(machines=[claims["default"]])  # as the launcher takes the drift back
    await scheduler.disruption.step()
    assert deleted(scheduler) == set()
    (done,) = ended(scheduler)
    assert (done["outcome"], done["why"]) == ("dropped", "it is not Drifted any more")
    assert ("ApprovalEnded", "default") in await events()


async def test_an_approved_command_waits_for_its_budget(scheduler: Scheduler, kube: Kube) -> None:
    claims = await with_drift(scheduler, kube, requiring())
    await scheduler.disruption.step()
    (one,) = waiting(scheduler)
    await scheduler.show(nodepools=[requiring(budgets=(Budget("0"),))])
    await respond(scheduler, one["id"], True)
    await scheduler.disruption.step()
    assert [offer["outcome"] for offer in waiting(scheduler)] == ["approved"]
    await scheduler.show(nodepools=[requiring()])
    await scheduler.disruption.step()
    assert deleted(scheduler) == {claims["default"].uid}


async def test_a_command_expires_and_is_offered_anew(
    scheduler: Scheduler, kube: Kube, events: Any
) -> None:
    await with_drift(scheduler, kube, requiring())
    await scheduler.disruption.step()
    (one,) = waiting(scheduler)
    approvals = approvals_of(scheduler)
    approvals.clock = scheduler.disruption.clock = Later(approvals.clock, 3600)
    status, refusal = await respond(scheduler, one["id"], True)
    assert (status, refusal["error"]) == (409, f"{one['id']} has expired")
    await scheduler.disruption.step()
    (done,) = ended(scheduler)
    assert (done["outcome"], done["why"]) == ("expired", "nobody answered")
    assert ("ApprovalEnded", "default") in await events()
    (again,) = waiting(scheduler)
    assert again["id"] != one["id"]
    assert deleted(scheduler) == set()


async def test_an_offer_ends_with_its_machine(scheduler: Scheduler, kube: Kube) -> None:
    claims = await with_drift(scheduler, kube, requiring())
    await scheduler.disruption.step()
    await scheduler.hide("machines", claims["default"].key)
    await scheduler.disruption.step()
    assert [(one["outcome"], one["why"]) for one in ended(scheduler)] == [("dropped", GONE)]


@pytest.mark.parametrize("generation", [V1ALPHA5, V1])
async def test_consolidation_is_offered_after_its_second_look(
    scheduler: Scheduler, generation: str
) -> None:
    pool = requiring(
        generation_api=generation, consolidate_after_seconds=0.0,
        consolidation_policy="WhenUnderutilized",
    )  # fmt: skip
    running = [make_running(name, "m5.x008", pool=pool) for name in ("n1", "n2", "n3")]
    await scheduler.show(
        nodepools=[pool],
        nodeclasses=[make_node_class(generation_api=generation)],
        machines=[one.machine for one in running],
        nodes=[one.node for one in running],
        pods=[pod for one in running for pod in pods_on(one.node.name, 2)],
    )
    for _ in range(2):
        await scheduler.disruption.step()
    (one,) = waiting(scheduler)
    assert one["reason"] == "Underutilized"
    assert one["savingPerHour"] > 0
    assert scheduler.commands.records() == []


async def test_the_first_answer_counts_and_wrong_ones_are_told(
    scheduler: Scheduler, kube: Kube
) -> None:
    await with_drift(scheduler, kube, requiring())
    await scheduler.disruption.step()
    (one,) = waiting(scheduler)
    status, refusal = await respond(scheduler, "nothing", True)
    assert (status, "no command with the id nothing" in refusal["error"]) == (404, True)
    status, refusal = await respond(scheduler, one["id"], True, colour="red")
    assert (status, "colour" in refusal["error"]) == (400, True)
    assert (await respond(scheduler, one["id"], False, who="ann"))[0] == 200
    status, refusal = await respond(scheduler, one["id"], True, who="bob")
    assert (status, refusal["error"]) == (409, f"{one['id']} was rejected by ann already")


async def test_what_redis_holds_and_nobody_can_read_is_removed(scheduler: Scheduler) -> None:
    approvals = approvals_of(scheduler)
    await approvals.store.put("strange", b'{"of": "another version"}')
    await approvals.load()
    await approvals.tidy()
    assert (await approvals.store.load()).offers == {}


async def test_where_no_pool_asks_redis_is_seldom_read(scheduler: Scheduler) -> None:
    """What is there was left by an earlier leader, and may stay for half a minute."""
    approvals = approvals_of(scheduler)
    await approvals.load()
    await approvals.store.put("strange", b'{"of": "another version"}')
    for later, left in ((0.0, {"strange"}), (UNASKED_SECONDS, set())):
        approvals.clock = Later(approvals.clock, later)
        await approvals.load()
        await approvals.tidy()
        assert set((await approvals.store.load()).offers) == left


class Starts:
    """Commands that began."""

    def __init__(self) -> None:
        self.begun: list[tuple[Command, str]] = []

    async def __call__(self, command: Command, id_: str, world: World, rejected: Any = ()) -> bool:
        self.begun.append((command, id_))
        return True


def gate(scheduler: Scheduler, clock: Clock, starts: Starts) -> Approvals:
    made = approvals_of(scheduler)
    return Approvals(made.settings, clock, made.view, made.store, made.reporter, starts)


async def pool_with(scheduler: Scheduler, count: int) -> tuple[Candidate, ...]:
    """So many machines of a pool that asks, and as many of one that does not."""
    pools = (requiring(), requiring(name="free", approval=()))
    running = [(p, make_running(f"{p.name}-{n}", pool=p)) for p in pools for n in range(count)]
    await scheduler.show(
        nodepools=pools,
        machines=[one.machine for _, one in running],
        nodes=[one.node for _, one in running],
    )
    return tuple(Candidate(one.machine, one.node, pool) for pool, one in running)


@pytest.mark.parametrize("seed", range(4))
async def test_no_command_of_a_pool_that_asks_starts_without_an_approval(
    scheduler: Scheduler, seed: int
) -> None:
    """Whatever is proposed, answered and taken over, in whatever order; one approval is for one start."""
    chance = random.Random(seed)
    candidates = await pool_with(scheduler, 4)
    clock = FakeClock(seconds=1.0, wall=scheduler.disruption.clock.now())
    starts, world = Starts(), World(None, (), {}, 0.0)  # type: ignore[arg-type]  # begin reads none
    approvals = gate(scheduler, clock, starts)
    allowed: dict[str, frozenset[str]] = {}
    for turn in range(150):
        action = chance.choice(["propose", "propose", "again", "answer", "wait", "load", "restart"])
        if action == "propose":
            going = tuple(chance.sample(candidates, chance.randint(1, 3)))
            command = Command("drift", DRIFTED, going)
        elif action == "again" and approvals.offers:
            command = chance.choice(list(approvals.offers.values())).command
        elif action == "answer" and approvals.offers:
            offer = chance.choice(list(approvals.offers.values()))
            answer = Answer(chance.random() < 0.6, "ann", clock.now())
            if (await approvals.answer(offer.id, answer))[1] and answer.approved:
                allowed[offer.id] = offer.uids
            continue
        else:
            clock.advance(chance.uniform(0, 1500) if action == "wait" else 1)
            if action == "restart":
                approvals = gate(scheduler, clock, starts)
            await approvals.load()
            await approvals.tidy()
            continue
        before = len(starts.begun)
        begun = await approvals.start(command, f"{turn:016x}", world)
        assert begun is (len(starts.begun) > before)
        if begun and requiring_pools(command):
            uids = {c.machine.uid for c in command.candidates}
            spent = [id_ for id_, machines in allowed.items() if uids <= machines]
            assert spent, "started without an approval"
            ended_now = [i for i in spent if approvals.offers[i].outcome is Outcome.STARTED]
            assert ended_now, "the approval was not spent"
            for id_ in ended_now:
                del allowed[id_]
        elif not requiring_pools(command):
            assert begun
    assert any(requiring_pools(command) for command, _ in starts.begun)


async def test_with_many_offers_further_machines_of_pools_that_ask_stay(
    scheduler: Scheduler,
) -> None:
    candidates = await pool_with(scheduler, 2)
    first, further, *free = candidates
    approvals = approvals_of(scheduler)
    now = scheduler.disruption.clock.now()
    for number in range(MOST_OFFERS):
        command = Command("drift", DRIFTED, (first,))
        offer = offer_of(command, f"{number}", now=now, seconds=60)
        approvals.offers[offer.id] = offer
    found = approvals.held()
    assert {first.machine.uid, further.machine.uid} <= found
    assert not found & {one.machine.uid for one in free}
    assert replace(first, pods=()).machine.uid in found
