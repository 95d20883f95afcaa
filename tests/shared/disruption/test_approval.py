"""Which commands wait for an approval, how long, and what is validated again: in both generations."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared.disruption.approval import (
    APPROVED,
    DROPPED,
    EXPIRED,
    GONE,
    MOST_ENDED,
    NOT_ASKED,
    OFFERED,
    REJECTED,
    STARTED,
    WAITING,
    Answer,
    Offer,
    approval_for,
    end_of,
    held,
    next_approved,
    offer_of,
    requiring_pools,
    surplus,
    without_offered,
)
from shared.disruption.candidates import Survey
from shared.disruption.methods import drift, emptiness
from shared.disruption.records import BUDGET, CHURN, SCHEDULING, Command, World
from shared.disruption.validation import validate
from shared.domain import labels as keys
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines.machine import DRIFTED
from shared.domain.pools.generations import GENERATIONS, V1, V1ALPHA5
from shared.domain.pools.nodepools import APPROVABLE, EMPTY, NodePool
from tests.support.planning.builders import make_pool
from tests.support.planning.disruption import NOW, make_cluster, make_running, make_world, pods_on

EACH_GENERATION = pytest.mark.parametrize("generation", [V1ALPHA5, V1])
HOUR = 3600.0


def pool_that_asks(generation: str = V1, *reasons: str) -> NodePool:
    return make_pool(generation_api=generation, approval=reasons or APPROVABLE)


def drifted_world(pool: NodePool, *, pods: int = 1, names: tuple[str, ...] = ("n1",)) -> World:
    running = [make_running(name, pool=pool, extra=(DRIFTED,)) for name in names]
    bound = [pod for name in names for pod in pods_on(name, pods)]
    return make_world(make_cluster(running, *bound, pools=(pool,)), gates=FeatureGates(drift=True))


def drift_command(world: World) -> Command:
    (command,) = drift.propose(world).commands
    return command


def offered(pool: NodePool | None = None) -> Offer:
    world = drifted_world(pool or pool_that_asks())
    return offer_of(drift_command(world), "one", now=NOW, seconds=HOUR)


def answered(offer: Offer, *, approved: bool = True, at: float = NOW + 60) -> Offer:
    return replace(offer, answer=Answer(approved, "ann", at, "because"))


@EACH_GENERATION
def test_a_pool_asks_for_all_reasons_or_for_some(generation: str) -> None:
    asks = drift_command(drifted_world(pool_that_asks(generation)))
    for_drift = drift_command(drifted_world(pool_that_asks(generation, DRIFTED)))
    for_empty = drift_command(drifted_world(pool_that_asks(generation, EMPTY)))
    assert [pool.name for pool in requiring_pools(asks)] == ["default"]
    assert [pool.name for pool in requiring_pools(for_drift)] == ["default"]
    assert requiring_pools(for_empty) == []


def test_one_asking_pool_is_enough_for_the_whole_command() -> None:
    asks = drift_command(drifted_world(pool_that_asks()))
    does_not = drift_command(drifted_world(make_pool(generation_api=V1), names=("n2",)))
    both = replace(asks, candidates=(*does_not.candidates, *asks.candidates))
    assert len(requiring_pools(both)) == 1


def test_an_offer_waits_until_it_is_answered_and_then_for_its_start() -> None:
    offer = offered()
    pools, machines = {"NodePool/default": pool_that_asks()}, set(offer.uids)
    assert offer.outcome is WAITING
    assert end_of(offer, pools, machines, now=NOW + HOUR - 1) is None
    assert end_of(offer, pools, machines, now=NOW + HOUR) == (EXPIRED, "nobody answered")
    late = answered(offer, at=NOW + HOUR - 1)
    assert late.outcome is APPROVED
    assert end_of(late, pools, machines, now=NOW + HOUR) is None
    end = end_of(late, pools, machines, now=NOW + 2 * HOUR)
    assert end == (EXPIRED, "the budgets left no room")
    refused = answered(offer, approved=False)
    assert end_of(refused, pools, machines, now=NOW + HOUR - 1) is None
    assert end_of(refused, pools, machines, now=NOW + HOUR) == (REJECTED, "because")


def test_an_offer_ends_when_a_machine_is_gone_or_no_pool_asks_any_more() -> None:
    offer = offered()
    asks = {"NodePool/default": pool_that_asks()}
    assert end_of(offer, asks, set(), now=NOW) == (DROPPED, GONE)
    for pools in ({}, {"NodePool/default": pool_that_asks(V1, EMPTY)}):
        assert end_of(offer, pools, set(offer.uids), now=NOW) == (DROPPED, NOT_ASKED)


def test_an_approval_is_for_these_machines_and_this_reason_only_and_in_its_time() -> None:
    world = drifted_world(pool_that_asks(), names=("n1", "n2"))
    first = drift_command(world)
    offer = answered(offer_of(first, "one", now=NOW, seconds=HOUR))
    (other,) = (c for c in world.candidates if c.machine.uid not in offer.uids)
    assert approval_for(first, [offer], now=NOW + 120) == offer
    assert approval_for(first, [offered()], now=NOW + 120) is None  # not answered
    assert approval_for(first, [answered(offered(), approved=False)], now=NOW + 120) is None
    assert approval_for(replace(first, candidates=(other,)), [offer], now=NOW) is None
    assert approval_for(replace(first, method=emptiness.METHOD), [offer], now=NOW) is None
    assert approval_for(first, [replace(offer, ended=STARTED)], now=NOW) is None
    assert approval_for(first, [offer], now=NOW + 60 + HOUR) is None


def test_the_first_approved_comes_first_and_one_that_waits_for_budgets_lets_others_by() -> None:
    early = answered(offered(), at=NOW + 1)
    late = replace(answered(offered(), at=NOW + 2), id="two")
    generation = GENERATIONS[V1]
    assert next_approved([late, early], generation, now=NOW + 3) == early
    assert next_approved([late, early], generation, now=NOW + 3, later={"one"}) == late
    assert next_approved([late, early], GENERATIONS[V1ALPHA5], now=NOW + 3) is None


def test_rejected_machines_are_held_and_ended_offers_hold_none() -> None:
    offer = offered()
    assert held([answered(offer, approved=False)]) == offer.uids
    assert held([offer], besides=offer.uids) == set()
    assert held([replace(offer, ended=EXPIRED)]) == set()


def test_the_oldest_ended_offers_are_forgotten() -> None:
    ended = [
        replace(offered(), id=str(n), ended=EXPIRED, ended_at=float(n))
        for n in range(MOST_ENDED + 2)
    ]
    assert [offer.id for offer in surplus([*reversed(ended), offered()])] == ["0", "1"]


def test_offered_machines_are_no_candidates_but_for_a_rebalance_recommendation() -> None:
    world = drifted_world(pool_that_asks(), names=("n1", "n2"))
    first, second = world.candidates
    noted = replace(first.machine, annotations={keys.REPLACE_ANNOTATION: "2026-01-01T00:00:00Z"})
    survey = Survey((replace(first, machine=noted), second), ())
    found = without_offered(survey, {first.machine.uid, second.machine.uid})
    assert [c.machine.uid for c in found.candidates] == [first.machine.uid]
    assert [(r.machine_key, r.text) for r in found.rejections] == [(second.machine.key, OFFERED)]


def test_a_stored_offer_does_not_hold_pods() -> None:
    assert all(c.pods == () for c in offered().command.candidates)


@EACH_GENERATION
def test_drift_is_right_again_while_the_same_machines_would_replace_it(generation: str) -> None:
    world = drifted_world(pool_that_asks(generation))
    command = drift_command(world)
    assert command.replacements
    verdict = validate(world, command)
    assert verdict.command is not None
    assert verdict.command.id == command.id


@EACH_GENERATION
def test_drift_that_is_over_or_needs_other_machines_is_not_right_any_more(generation: str) -> None:
    pool = pool_that_asks(generation)
    world = drifted_world(pool)
    command = drift_command(world)
    calm = make_world(make_cluster([make_running(pool=pool)], pools=(pool,)), gates=world.gates)
    assert validate(calm, command)[1:] == (SCHEDULING, "it is not Drifted any more")
    assert validate(drifted_world(pool, pods=0), command)[1:] == (
        SCHEDULING, "0 new machine(s) are needed by now, not 1",
    )  # fmt: skip
    assert validate(replace(world, candidates=()), command).cause is CHURN
    assert validate(replace(world, allowed={}), command).cause is BUDGET
