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
from shared.solver.lowest_cost.contents.opened import Opened
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
    """How other machines for the pods of opened ones are found."""

    @property
    def units(self) -> float:
        """Of effort, as expected; infinite for a program that is too large."""
        ...

    def solve(self, effort: Effort) -> list[Pattern] | None:
        """Machines of the opened problem for all its pods; None when nothing is found."""
        ...


class Exchange:
    """Improves packings of one problem. No attempt is repeated. ``trial``: by sizes, unless another one is given."""

    def __init__(
        self,
        problem: Problem,
        market: Worth,
        trial: Callable[[Opened, Worth], Trial] | None = None,
    ) -> None:
        self._problem = problem
        self._market = market
        self._trial = trial or _SizesTrial.of
        self._tried: set[tuple[bytes, bytes, bytes]] = set()

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
            found = self._affordable([machines[at] for at in chosen], effort)
            again = found and found[1].solve(effort)
            if not found or not again:
                continue
            opened = found[0]
            old, new = (rank(some, self._problem.price) for some in (opened.machines, again))
            if new < old:
                taken = set(chosen[: len(opened.machines)])
                kept = [one for at, one in enumerate(machines) if at not in taken]
                machines = kept + opened.named(again)
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

    def _affordable(self, machines: list[Pattern], effort: Effort) -> tuple[Opened, Trial] | None:
        """The trial with the first of these machines that is small enough; None without one that is new."""
        for count in range(len(machines), 1, -1):
            opened = Opened.of(self._problem, machines[:count])
            trial = self._trial(opened, self._market)
            if trial.units > max(_PART * effort.most, 1.0):
                continue
            if trial.units > effort.most - effort.used:
                continue
            if opened.identity in self._tried:
                return None
            self._tried.add(opened.identity)
            return opened, trial
        return None


@dataclass(frozen=True, eq=False)
class _SizesTrial:
    """``offers``: for other machines."""

    opened: Opened
    offers: Indices

    @classmethod
    def of(cls, opened: Opened, market: Worth) -> _SizesTrial:
        return cls(opened, _worth_choosing(opened.problem, market, opened.offers))

    @property
    def units(self) -> float:
        columns = columns_of(self.opened.problem, self.offers)
        return inf if columns > _MOST_COLUMNS else expected_units(columns)

    def solve(self, effort: Effort) -> list[Pattern] | None:
        """Machines for the same pods; None when nothing is found."""
        opened = self.opened
        return cheapest_machines(opened.problem, self.offers, opened.known(), effort)


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
