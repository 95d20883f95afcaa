"""Which methods of disruption are tried, in which order, and what their last passes found: pure (DIS-03, DIS-05,
DIS-31, CON-11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from services.scheduler.state.decisions import Rejected
from shared.disruption.global_consolidation import plan
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.methods import (
    drift,
    emptiness,
    expiration,
    multi_node,
    rebalance,
    single_node,
    static_drift,
)
from shared.disruption.records import Candidate, Command, Proposal, Rejection, World
from shared.domain.instance_types.shortages import Shortages
from shared.domain.pools.generations import Generation
from shared.domain.pools.nodepools import GLOBAL, KARPENTER, UNDERUTILIZED
from shared.domain.snapshot import OfferingKey
from shared.solver.pools.packing_policy import consolidator_of

CONSOLIDATIONS = frozenset({plan.METHOD, multi_node.METHOD, single_node.METHOD})
DRIFTS = frozenset({drift.METHOD, static_drift.METHOD})
DELAYED = CONSOLIDATIONS | {emptiness.METHOD}
MOST_TEXTS = 20
"""Of each method, in ``/status``: the most frequent."""
SURVEY = "candidates"
"""Stands where a method's name would: the survey that comes before all methods."""


class Method(msgspec.Struct, frozen=True):
    name: str
    propose: Callable[[World], Proposal]
    remembers: bool = False
    """What a pass did not reach comes first in the next."""


def methods_of(
    generation: Generation, consolidation: str, unseen: frozenset[str], churn: Churn
) -> list[Method]:
    """In order; recommendations first, their time is short. ``consolidation``: of pools that do not say; ``unseen``:
    of the last pass (CON-10); ``churn``: what Global's moves may cost."""
    empty = Method(emptiness.METHOD, emptiness.propose)
    drifted = Method(drift.METHOD, drift.propose)
    first = (
        [Method(expiration.METHOD, expiration.propose), drifted, empty]
        if generation.replaces_expired
        else [empty, Method(static_drift.METHOD, static_drift.propose), drifted]
    )
    leaving = Method(rebalance.METHOD, rebalance.propose)
    return [leaving, *first, *_consolidations(consolidation, unseen, churn)]


def _consolidations(consolidation: str, unseen: frozenset[str], churn: Churn) -> list[Method]:
    """Each evaluates only the candidates of pools that chose it."""

    def whole(world: World) -> Proposal:
        return plan.propose(of_consolidator(world, GLOBAL, consolidation), churn)

    def multi(world: World) -> Proposal:
        return multi_node.propose(of_consolidator(world, KARPENTER, consolidation))

    def single(world: World) -> Proposal:
        return single_node.propose(of_consolidator(world, KARPENTER, consolidation), first=unseen)

    return [
        Method(plan.METHOD, whole),
        Method(multi_node.METHOD, multi),
        Method(single_node.METHOD, single, remembers=True),
    ]


def of_consolidator(world: World, desired: str, default: str) -> World:
    """The same world with the candidates whose pools are consolidated this way."""
    policy = world.solver.packing_policy
    return replace(
        world,
        candidates=tuple(
            c for c in world.candidates if consolidator_of(c.pool, default, policy) == desired
        ),
    )


def delayed(command: Command) -> bool:
    """Does it wait for a validation? v1alpha5's TTL has waited already (DIS-32)."""
    if command.method not in DELAYED:
        return False
    first = command.candidates[0]
    ttl = first.pool.empty_ttl_seconds
    waited = not first.machine.api.waits_until_consolidatable and ttl is not None
    return not (command.method == emptiness.METHOD and waited)


class Inputs(NamedTuple):
    """All that consolidation's answer depends on: equal inputs get equal answers (DIS-27)."""

    generation: int
    """Of the mirror; what follows changes without it, with time or by our own writes."""
    catalogue: str
    unavailable: frozenset[OfferingKey]
    shortages: Shortages
    allowed: tuple[tuple[tuple[str, str], int], ...]
    kept: tuple[tuple[str, str], ...]
    """(pool key, what it lacks or keeps now), which changes with time."""
    delayed: tuple[tuple[str, str], ...]
    """(pool key, why its machines are left alone for a while)."""
    candidates: frozenset[tuple[str, str, bool]]
    """(machine UID, what blocks it, whether it rests): without those that are nominated or in a command."""


def inputs_of(world: World, churn: Churn) -> Inputs:
    return Inputs(
        world.snapshot.generation,
        world.snapshot.catalogue.generation,
        world.snapshot.unavailable,
        world.snapshot.shortages,
        tuple(sorted(world.allowed.items())),
        world.keeping.required(),
        tuple(sorted(world.delayed.items())),
        frozenset(
            (c.machine.uid, c.blocker, churn.is_too_new(c, now=world.now)) for c in world.candidates
        ),
    )


def allowed_in(world: World) -> bool:
    """Did no budget hold consolidation back (DIS-27)?"""
    pools = {c.machine.pool_key for c in world.candidates}
    return all(world.left(key, UNDERUTILIZED) > 0 for key in pools)


@dataclass
class Findings:
    """Overwritten by every pass. Read for ``/status`` and ``/explain``."""

    surveyed: tuple[Rejection, ...] = ()
    """Machines that are no candidates, as of the last survey."""
    candidates: tuple[Candidate, ...] = ()
    """Of the last survey, both generations."""
    by_method: dict[tuple[str, str], tuple[Rejection, ...]] = field(default_factory=dict)
    """(method, generation of API) -> why machines stayed, of its last pass."""
    allowed: dict[tuple[str, str], int] = field(default_factory=dict)
    """(pool key, reason) -> how many more machines the budgets allowed."""

    def stay(self) -> dict[str, dict[str, int]]:
        """Method -> why machines stay, and how many: the most frequent texts."""
        texts = {SURVEY: Counter(rejection.text for rejection in self.surveyed)}
        for (method, _), found in self.by_method.items():
            texts.setdefault(method, Counter()).update(rejection.text for rejection in found)
        return {method: dict(counts.most_common(MOST_TEXTS)) for method, counts in texts.items()}

    def rejected(self, command: Command) -> list[Rejected]:
        """Why the other machines of the command's generation stay: the most frequent texts."""
        going = {candidate.machine.key for candidate in command.candidates}
        generation = command.candidates[0].machine.api
        others: dict[str, dict[str, str]] = {}
        for rejection in self._of_generation(generation):
            if rejection.machine_key not in going:
                machines = others.setdefault(rejection.text, {})
                machines[rejection.machine_key] = rejection.node
        frequent = sorted(others.items(), key=lambda one: -len(one[1]))[:MOST_TEXTS]
        return [Rejected(_nodes(machines), text) for text, machines in frequent]

    def _of_generation(self, generation: Generation) -> Iterator[Rejection]:
        kind = f"{generation.machine_kind}/"
        yield from (one for one in self.surveyed if one.machine_key.startswith(kind))
        for (_, name), found in self.by_method.items():
            if name == generation.name:
                yield from found

    def about(self, machine_key: str) -> Iterator[tuple[str, Rejection]]:
        """(method, why it stays) of one machine."""
        for rejection in self.surveyed:
            if rejection.machine_key == machine_key:
                yield SURVEY, rejection
        for (method, _), rejections in sorted(self.by_method.items()):
            for rejection in rejections:
                if rejection.machine_key == machine_key:
                    yield method, rejection

    def exhausted(self, pool_key: str) -> list[str]:
        """Reasons for which the pool's budgets allowed nothing."""
        return [r for (key, r), left in self.allowed.items() if key == pool_key and left == 0]


def _nodes(machines: Mapping[str, str]) -> str:
    """``machines``: key -> name of its node. One is named, several are counted."""
    (key, node), *more = machines.items()
    return f"{len(machines)} nodes" if more else f"node {node or key}"
