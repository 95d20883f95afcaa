"""Improves a packing by exchanging a few of its machines for the cheapest ones that hold the same pods.

What a packing loses is mostly in its last machines: their sizes do not suit what is left. An integer program finds
better ones, but only for few machines at once, so machines of little value per dollar are taken in turn: those whose
pods could share a machine (one zone, one architecture), and every other time any. The program is over sizes of machines
and the pods that each gets, or over whole contents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np

from shared.solver.encode import Indices, Mask
from shared.solver.lowest_cost.bound.dual import Worth
from shared.solver.lowest_cost.contents.sizes import cheapest_machines, columns_of, expected_units
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.offers import covering, unbeaten
from shared.solver.lowest_cost.problem import Floats, Pattern, Problem, rank

_SIZES = (8, 5, 6, 4)
"""Machines that are exchanged at once, in turn."""
_MOST_SHARE = 0.5
"""The share of the cost up to which there may be more than two of them."""
_MOST_COLUMNS, _PART = 700, 0.3
"""A program that is larger, or takes a larger part of the effort, is asked about fewer machines."""
_FEW_COLUMNS = 150
_PER_PRICE = (3, 2, 1)
"""Offerings of about the same price that the program may choose from, the first that gives few columns."""
_STEPS_PER_DOUBLING = 2
_ANCHORS = 6
_MOST_ATTEMPTS, _MOST_FAILED = 200, 24
_VALUE_NOISE, _GOLDEN = 0.1, 0.618_033_988_749_895
"""A deterministic offset per machine changes the order of machines of similar value from one attempt to the next."""
_ENOUGH = 1.002
"""Nothing is exchanged any more once the cost is at most this multiple of the bound."""


class Trial(Protocol):
    """Machines that are opened, and how others for their pods are found."""

    @property
    def opened(self) -> list[Pattern]: ...

    @property
    def identity(self) -> tuple[bytes, bytes]:
        """Equal for trials that find the same."""
        ...

    @property
    def units(self) -> float:
        """Of effort, as expected; infinite for a program that is too large."""
        ...

    def solve(self, effort: Effort) -> list[Pattern] | None:
        """Machines for the same pods; None when nothing is found."""
        ...


class Exchange:
    """Improves packings of one problem. No attempt is repeated. ``trial``: by sizes, unless another one is given."""

    def __init__(
        self,
        problem: Problem,
        market: Worth,
        trial: Callable[[Problem, Worth, list[Pattern]], Trial] | None = None,
    ) -> None:
        self._problem = problem
        self._market = market
        self._trial = trial or _SizesTrial.of
        self._tried: set[tuple[bytes, bytes]] = set()

    def improved(self, packing: list[Pattern], effort: Effort) -> list[Pattern]:
        """The packing, or a cheaper one."""
        machines = [p._replace(copies=1) for p in packing for _ in range(p.copies)]
        failed = 0
        for attempt in range(_MOST_ATTEMPTS):
            cost = float(self._problem.price[[one.offer for one in machines]].sum())
            done = failed >= _MOST_FAILED or cost <= self._market.bound * _ENOUGH
            if done or len(machines) < 2 or not effort.is_left:
                break
            chosen = self._chosen(machines, attempt)
            failed += 1
            trial = self._affordable([machines[at] for at in chosen], effort)
            again = trial and trial.solve(effort)
            if not trial or not again:
                continue
            old, new = (rank(some, self._problem.price) for some in (trial.opened, again))
            if new < old:
                taken = set(chosen[: len(trial.opened)])
                machines = [one for at, one in enumerate(machines) if at not in taken] + again
                failed = 0
        return machines

    def _chosen(self, machines: list[Pattern], attempt: int) -> list[int]:
        """Machines to exchange: of little value per dollar."""
        order, price = self._by_value(machines, attempt)
        turn, together = attempt // 2, attempt % 2 == 0
        if together:
            anchor = order[turn % min(_ANCHORS, len(order))]
            order = [anchor, *(at for at in order if at != anchor)]
        size, budget = _SIZES[turn % len(_SIZES)], _MOST_SHARE * float(price.sum())
        found: list[int] = []
        common = np.ones(len(self._problem.price), dtype=np.bool_)
        for at in order:
            both = np.logical_and(common, self._hosts(machines[at]))
            if together and not both.any():
                continue
            if len(found) >= 2 and price[[*found, at]].sum() > budget:
                continue
            found.append(at)
            common = both
            if len(found) == size:
                break
        return found

    def _by_value(self, machines: list[Pattern], attempt: int) -> tuple[list[int], Floats]:
        """(machines, those of the least value per dollar first; [machines]: prices)."""
        price = self._problem.price[[one.offer for one in machines]]
        worth = np.array([self._market.pods[one.classes] @ one.counts for one in machines])
        turns = np.arange(1, len(machines) + 1) * (_GOLDEN * (attempt + 1)) % 1.0
        noise = _VALUE_NOISE * turns if attempt > 1 else 0.0
        return np.argsort(worth / price + noise, kind="stable").tolist(), price

    def _hosts(self, machine: Pattern) -> Mask:
        """[offers]: those that each of the machine's pods may use."""
        return np.asarray(self._problem.fits[machine.classes].all(axis=0), dtype=np.bool_)

    def _affordable(self, opened: list[Pattern], effort: Effort) -> Trial | None:
        """The trial with the first of these machines that is small enough; None without one that is new."""
        for count in range(len(opened), 1, -1):
            trial = self._trial(self._problem, self._market, opened[:count])
            if trial.units > max(_PART * effort.most, 1.0):
                continue
            if trial.units > effort.most - effort.used:
                continue
            if trial.identity in self._tried:
                return None
            self._tried.add(trial.identity)
            return trial
        return None


@dataclass(frozen=True, eq=False)
class _SizesTrial:
    """Machines, the problem of their pods, and the offerings for other machines."""

    opened: list[Pattern]
    problem: Problem
    rows: Indices
    """[classes of ``problem``]: the classes of the whole problem."""
    offers: Indices
    identity: tuple[bytes, bytes]

    @classmethod
    def of(cls, problem: Problem, market: Worth, opened: list[Pattern]) -> _SizesTrial:
        counts = np.zeros_like(problem.counts)
        for one in opened:
            counts[one.classes] += one.counts
        there = np.array(sorted(one.offer for one in opened), dtype=np.intp)
        part = problem.without_empty(counts)
        offers = _worth_choosing(part, market, there)
        return cls(
            opened, part, np.flatnonzero(counts), offers, (counts.tobytes(), there.tobytes())
        )

    @property
    def units(self) -> float:
        columns = columns_of(self.problem, self.offers)
        return inf if columns > _MOST_COLUMNS else expected_units(columns)

    def solve(self, effort: Effort) -> list[Pattern] | None:
        """Machines for the same pods; None when nothing is found."""
        rows = self.rows
        known = [p._replace(classes=np.searchsorted(rows, p.classes)) for p in self.opened]
        found = cheapest_machines(self.problem, self.offers, known, effort)
        return found and [one._replace(classes=rows[one.classes]) for one in found]


def _worth_choosing(problem: Problem, market: Worth, there: Indices) -> Indices:
    """The offerings of the machines that are there, and of all others the most efficient ones of each price."""
    budget = float(problem.price[there].sum())
    usable = np.flatnonzero(problem.fits.any(axis=0) & (problem.price <= budget))
    usable = usable[_not_covered(problem, usable)]
    step = np.floor(np.log2(problem.price[usable]) * _STEPS_PER_DOUBLING)
    places: dict[tuple[bytes, float], list[int]] = {}
    for offer, at in zip(usable.tolist(), step.tolist(), strict=True):
        places.setdefault((problem.fits[:, offer].tobytes(), at), []).append(offer)
    for some in places.values():
        some.sort(key=lambda one: -market.efficiency[one])
    for most in _PER_PRICE:
        best = (one for some in places.values() for one in some[:most])
        chosen = np.array(sorted({*there.tolist(), *best}), dtype=np.intp)
        if columns_of(problem, chosen) <= _FEW_COLUMNS:
            break
    return chosen


def _not_covered(problem: Problem, offers: Indices) -> Indices:
    """Positions of the offerings that no cheaper one replaces; room beyond what all pods need does not count."""
    users = problem.fits[:, offers].sum(axis=0)
    order = np.lexsort((-users, problem.price[offers]))
    sizes = np.minimum(problem.capacity[offers[order]], problem.counts @ problem.requests)
    rows = np.arange(len(order))
    stands_in = covering(problem.fits[:, offers[order]].T)(rows, rows)
    kept = unbeaten(sizes, np.ones(len(order), dtype=np.bool_), stands_in)
    return np.sort(order[kept])
