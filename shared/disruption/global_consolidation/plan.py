"""Global consolidation: finds the set of machines whose removal saves most, and the replacements for it.

A fast search over pod classes proposes a set (``global_search``), and the planner proves it (``global_proof``). A
refused set is reduced by the machines that caused the refusal, a bounded number of times. Many machines may be replaced
by none, one or several. Moving pods has a cost: see ``churn``. One command may do the work of many steps of Karpenter's
consolidation.

What may go wrong: the search approximates topology rules, so every reduced set may be refused; its machines are
considered again in the next pass.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.global_consolidation.picture import ClusterArrays, encode_cluster
from shared.disruption.global_consolidation.proof import (
    METHOD,
    ProofRefusal,
    prove,
    why_not_replaced,
)
from shared.disruption.global_consolidation.search import Search
from shared.disruption.methods.consolidation import eligible, unconsolidatable
from shared.disruption.records import Candidate, Command, Proposal, Rejection, World
from shared.disruption.simulation import without_young_nodes
from shared.domain.pools.nodepools import UNDERUTILIZED

__all__ = ["METHOD", "MOST_PROOFS", "propose"]

MOST_PROOFS = 5
"""Sets that the planner simulates in one pass, at most."""
UNKNOWN_PRICE = "the price of the node is not known"


def propose(world: World, churn: Churn | None = None) -> Proposal:
    """The command that saves most, if any pays for its moves, and why the other machines stay."""
    churn = churn or Churn()
    candidates, rejections = _open(world, churn)
    if not candidates:
        return Proposal((), rejections)
    arrays = encode_cluster(world, candidates, without_young_nodes(world.snapshot))
    pools = {c.machine.pool_key for c in candidates}
    budget = {key: world.left(key, UNDERUTILIZED) for key in pools}
    may_buy = tuple(not why_not_replaced(world, candidate) for candidate in candidates)
    drained, replaced = Search(arrays, churn, budget, may_buy).run()
    attempt = Attempt(
        tuple(arrays.candidates[at] for at in drained),
        tuple(arrays.candidates[at] for at in replaced),
    )
    command, refused = _proved(world, attempt, churn)
    if command is not None:
        return Proposal((command,), (*rejections, *refused.values()))
    return Proposal((), (*rejections, *{**_stay(world, arrays, churn), **refused}.values()))


def _open(world: World, churn: Churn) -> tuple[tuple[Candidate, ...], tuple[Rejection, ...]]:
    """Candidates that are eligible (CON-01), have a known price and are old enough; rejections of the others."""
    known, rejections = eligible(world)
    kept, more = [], []
    for candidate in known:
        if candidate.price_micro_usd_per_hour is None:
            more.append(unconsolidatable(candidate, UNKNOWN_PRICE))
        elif churn.is_too_new(candidate, now=world.now):
            text = (
                f"was initialized less than {churn.rest_seconds:g} s ago and is not moved again yet"
            )
            more.append(unconsolidatable(candidate, text))
        elif world.left(candidate.machine.pool_key, UNDERUTILIZED) > 0:
            kept.append(candidate)
    return tuple(kept), (*rejections, *more)


def _proved(
    world: World, attempt: Attempt, churn: Churn
) -> tuple[Command | None, dict[str, Rejection]]:
    """(the best command that the planner accepts, machine UID -> rejection of a refused machine)."""
    best: Command | None = None
    refused: dict[str, Rejection] = {}
    for number in range(MOST_PROOFS):
        if number == MOST_PROOFS - 1 and best is None and attempt.drained:
            attempt = Attempt(attempt.drained, ())
        if not attempt.all:
            break
        answer = prove(world, attempt.all, churn)
        if isinstance(answer, ProofRefusal):
            smaller = attempt.after(answer)
            for candidate in attempt.without(smaller):
                refused[candidate.machine.uid] = unconsolidatable(candidate, answer.text)
        else:
            if best is None or _gain(answer, churn) > _gain(best, churn):
                best = answer
            improved = attempt.improved(answer, churn)
            if improved is None:
                break
            smaller = improved
        attempt = smaller
    going = {c.machine.uid for c in best.candidates} if best else set()
    return best, {uid: r for uid, r in refused.items() if uid not in going}


class Attempt(NamedTuple):
    """A set to prove. ``drained``: expected to need no new machine. ``replaced``: the others, most wasteful first."""

    drained: tuple[Candidate, ...]
    replaced: tuple[Candidate, ...]

    @property
    def all(self) -> tuple[Candidate, ...]:
        return (*self.drained, *self.replaced)

    def after(self, refusal: ProofRefusal) -> Attempt:
        """A smaller set after a refusal.

        If the set saves too little, fewer machines are replaced. Otherwise the machines that caused the refusal are
        left out; if these are not known, the last half.
        """
        if refusal.too_dear and self.replaced:
            return self._with_fewer_replaced()
        names = self.all
        culprits = refusal.culprits or {c.machine.uid for c in names[len(names) // 2 :]}
        return self._without(culprits)

    def improved(self, command: Command, churn: Churn) -> Attempt | None:
        """A set that may be better than the accepted command; None when there is no obvious one."""
        if kept := _bought_again(command):
            return self._without(kept)
        alone = sum(c.price_micro_usd_per_hour or 0 for c in self.drained)
        alone -= churn.required_saving(sum(len(c.pods) for c in self.drained))
        if self.replaced and _gain(command, churn) < alone:
            return self._with_fewer_replaced()
        return None

    def without(self, smaller: Attempt) -> tuple[Candidate, ...]:
        """The candidates of this set that are not in the smaller one."""
        kept = {c.machine.uid for c in smaller.all}
        return tuple(c for c in self.all if c.machine.uid not in kept)

    def _with_fewer_replaced(self) -> Attempt:
        """A quarter of ``replaced``: so few proofs reduce a hundred machines to one."""
        return Attempt(self.drained, self.replaced[: len(self.replaced) // 4])

    def _without(self, uids: Set[str]) -> Attempt:
        return Attempt(
            tuple(c for c in self.drained if c.machine.uid not in uids),
            tuple(c for c in self.replaced if c.machine.uid not in uids),
        )


def _gain(command: Command, churn: Churn) -> int:
    """The saving beyond what the command's moves require."""
    return command.saving_micro_usd_per_hour - churn.required_saving(command.moved_pods)


def _bought_again(command: Command) -> frozenset[str]:
    """UIDs of machines that equal a replacement in type and place: keeping them costs the same without moves."""
    found: set[str] = set()
    # The busiest first: of equal machines the one that stays should be the one whose pods would have to move most.
    busiest = sorted(command.candidates, key=lambda c: (-len(c.pods), c.name))
    for planned in command.replacements:
        offering = planned.offering
        place = (planned.pool_key, planned.instance_type, offering.zone, offering.capacity_type)
        for candidate in busiest:
            if candidate.machine.uid not in found and _place(candidate) == place:
                found.add(candidate.machine.uid)
                break
    return frozenset(found)


def _place(candidate: Candidate) -> tuple[str, str, str, str]:
    machine = candidate.machine
    return machine.pool_key, machine.instance_type, machine.zone, machine.capacity_type


def _stay(world: World, arrays: ClusterArrays, churn: Churn) -> dict[str, Rejection]:
    """Machine UID -> why moving its pods does not pay."""
    found = {}
    for at, candidate in enumerate(arrays.candidates):
        pods, excess = int(arrays.pods[at]), max(int(arrays.excess[at]), 0)
        text = f"its {pods} pod(s) do not fit on other nodes for what moving them may cost, "
        text += f"${churn.required_saving(pods) / 1e6:.4f} an hour; "
        text += why_not_replaced(world, candidate) or (
            f"new machines for them would save ${excess / 1e6:.4f} at most"
        )
        found[candidate.machine.uid] = unconsolidatable(candidate, text)
    return found
