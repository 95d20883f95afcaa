"""One pass of disruption as a function of its snapshot and its question: pure, so a recorded pass can be made again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from services.scheduler.disruption.methods import CONSOLIDATIONS, Method, methods_of
from shared.disruption.approval import without_offered
from shared.disruption.budgets import allowed_now
from shared.disruption.candidates import Survey, offering_prices, survey
from shared.disruption.delays import delayed
from shared.disruption.keeping import keeping
from shared.disruption.records import Proposal, World
from shared.disruption.validation import validate
from shared.domain.pools.generations import GENERATIONS
from shared.domain.snapshot import Snapshot
from shared.simulation.decisions.prepared import to_survey
from shared.simulation.decisions.records import (
    PassOutcome,
    PassQuestion,
    ValidationOutcome,
    ValidationQuestion,
    pass_outcome,
    validation_outcome,
)

NO_METHODS: frozenset[str] = frozenset()


class Surveyed(NamedTuple):
    """The input of a pass, and what the survey before it found about all machines."""

    world: World
    found: Survey


def surveyed(snapshot: Snapshot, question: PassQuestion) -> Surveyed:
    """Candidates and budgets, as of the question."""
    prices = offering_prices(snapshot.catalogue)
    busy = frozenset(question.busy)
    found = survey(
        snapshot,
        prices,
        nominated=set(question.nominated),
        busy=busy,
        now=question.now,
        rules=question.rules,
    )
    allowed = allowed_now(
        snapshot.pools,
        snapshot.machines,
        {node.name: node for node in snapshot.nodes},
        busy,
        now=question.now,
        off=question.off,
        spent=question.spent,
    )
    found = without_offered(found, frozenset(question.offered))
    world = World(
        snapshot=snapshot,
        candidates=tuple(c for c in found.candidates if c.machine.api.name == question.generation),
        allowed=allowed,
        now=question.now,
        gates=question.gates,
        solver=question.settings,
        drift_held=frozenset(question.drift_held),
        delayed=delayed(snapshot.pools, question.rules, question.changes, now=question.now),
        keeping=keeping(snapshot, busy, now=question.now),
    )
    return Surveyed(world, found)


def methods_in(question: PassQuestion) -> list[Method]:
    """The methods that are tried, in order, until one has a command."""
    generation = GENERATIONS[question.generation]
    unseen = frozenset(question.unseen)
    found = methods_of(generation, question.consolidation, unseen, question.churn)
    left_out = CONSOLIDATIONS if question.quiet else NO_METHODS
    return [one for one in found if one.name not in left_out]


def pass_again(snapshot: Snapshot, question: PassQuestion) -> PassOutcome:
    """The outcome of a whole pass."""
    return pass_outcome(_tried(world_again(snapshot, question), question))


def world_again(snapshot: Snapshot, question: PassQuestion) -> World:
    """``snapshot``: as it was recorded, without virtual pods."""
    return surveyed(to_survey(snapshot, question), question).world


def _tried(world: World, question: PassQuestion) -> Iterator[tuple[str, Proposal]]:
    for method in methods_in(question):
        proposal = method.propose(world)
        yield method.name, proposal
        if proposal.commands:
            return


def validation_again(snapshot: Snapshot, question: ValidationQuestion) -> ValidationOutcome:
    """The outcome of a validation."""
    world = world_again(snapshot, question.world)
    return validation_outcome(validate(world, question.command, question.world.churn))
