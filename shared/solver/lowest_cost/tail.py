"""Improves a packing by repacking its least efficient machines together.

The first machines of a packing choose among all pods; the last ones get the pods that remain, which do not combine
well. So the least efficient machines, up to a share of the cost, are opened again, and their pods are packed as a
problem of their own, with their own prices and in another style. Repacking few machines gains almost nothing; repacking
half of them at once nearly always gains.
"""

from __future__ import annotations

import numpy as np

from shared.solver.encode import Indices
from shared.solver.lowest_cost.bound.dual import Worth, worth
from shared.solver.lowest_cost.fill import Effort, Style, pack, right_sized
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem, rank

_OPENED_SHARES = (0.6, 0.4, 0.5, 0.3, 0.2)
"""Shares of the cost that are opened again, used in turn."""
_MIN_OPENED_SHARE = 0.1
_STYLES = (
    Style(share=np.inf, size=np.inf, bulk=1.5, tolerance=0.004),
    Style(share=1.3, size=np.inf, bulk=0.6, tolerance=0.004, portion=1),
    Style(share=np.inf, size=np.inf, bulk=0.6, tolerance=0.004),
    Style(share=1.3, size=np.inf, bulk=0.0, tolerance=0.004, portion=1),
    Style(share=np.inf, size=np.inf, bulk=0.0, tolerance=0.004, portion=1),
    Style(share=1.3, size=1.5, bulk=1.5, tolerance=0.004),
    Style(share=2.0, size=2.0, bulk=0.3, tolerance=0.004),
)
_MAX_FAILED_ATTEMPTS = 12
"""Attempts without a gain after which the search ends."""
_LEAST_EFFICIENCY, _LEAST_FOR_FEW, _FEW_PODS = 0.9, 0.5, 250
"""Offerings whose contents cannot be worth this share of the price are not tried. Few pods often need inefficient
machines, so for them the limit is lower."""
_EFFICIENCY_SLACK = 0.03
"""How much the prices may underestimate an offering's efficiency."""
_WORTH_UNITS, _PAIR_UNITS = 3.0, 0.004
"""Units of one linear program: fixed, and per class."""
_VALUE_NOISE, _GOLDEN = 0.02, 0.618_033_988_749_895
"""From the third attempt on, a deterministic offset per machine changes the order of machines with similar value."""


def packed_with(
    problem: Problem, market: Worth, style: Style, effort: Effort, slack: float = 0.0
) -> list[Pattern]:
    """One packing of all pods at the market's prices, into sufficiently efficient offerings."""
    chosen = _efficient(problem, market.efficiency)
    part = problem.with_offers(chosen)
    packed = pack(part, market.pods, market.efficiency[chosen] + slack, style, effort)
    return right_sized(problem, [p._replace(offer=int(chosen[p.offer])) for p in packed])


def _efficient(problem: Problem, efficiency: Floats) -> Indices:
    """The sufficiently efficient offerings, and all offerings for classes that fit none of these."""
    few = int(problem.counts.sum()) < _FEW_PODS
    found = efficiency >= (_LEAST_FOR_FEW if few else _LEAST_EFFICIENCY)
    without = problem.fits.any(axis=1) & ~problem.fits[:, found].any(axis=1)
    return np.flatnonzero(found | problem.fits[without].any(axis=0))


class Tail:
    """Improves packings of one problem. No attempt is repeated."""

    def __init__(self, problem: Problem, market: Worth, extended: Indices) -> None:
        self._problem = problem
        self._market = market
        self._extended = extended
        self._attempt = 0
        self._whole = 0.0
        """Estimated units for opening all machines; 0 before the first attempt."""
        self._tried: set[tuple[bytes, int]] = set()

    def improved(self, packing: list[Pattern], effort: Effort) -> list[Pattern]:
        """The packing, or a cheaper one."""
        machines = [p._replace(copies=1) for p in packing for _ in range(p.copies)]
        failed = 0
        while failed < _MAX_FAILED_ATTEMPTS and len(machines) > 1:
            share = min(
                _OPENED_SHARES[self._attempt % len(_OPENED_SHARES)], self._affordable(effort)
            )
            if share < _MIN_OPENED_SHARE:
                break
            kept, opened = self._split(machines, share)
            before = effort.used
            again = self._again(opened, effort)
            self._whole = max(self._whole, (effort.used - before) / share)
            self._attempt, failed = self._attempt + 1, failed + 1
            if again is None:
                continue
            old, new = (rank(some, self._problem.price) for some in (opened, again))
            if new <= old:
                machines = kept + [p._replace(copies=1) for p in again for _ in range(p.copies)]
                failed = 0 if new < old else failed
        return machines

    def _affordable(self, effort: Effort) -> float:
        """The share of the cost that can be opened with the remaining effort."""
        left = effort.most - effort.used
        return left / self._whole if self._whole else float(left > 0)

    def _split(self, machines: list[Pattern], share: float) -> tuple[list[Pattern], list[Pattern]]:
        """The machines to keep, and those of least value per dollar."""
        price = self._problem.price[[p.offer for p in machines]]
        worth = np.array([self._market.pods[p.classes] @ p.counts for p in machines])
        value = worth / price
        if self._attempt > 1:
            turns = np.arange(1, len(machines) + 1) * (_GOLDEN * (self._attempt + 1)) % 1.0
            value += _VALUE_NOISE * (2 * turns - 1)
        order = np.argsort(value, kind="stable")
        number = int(np.searchsorted(np.cumsum(price[order]), share * price.sum()))
        opened = set(map(int, order[: max(number, 2)]))
        kept = [p for i, p in enumerate(machines) if i not in opened]
        return kept, [machines[i] for i in sorted(opened)]

    def _again(self, opened: list[Pattern], effort: Effort) -> list[Pattern] | None:
        """The contents of these machines, packed in the next style; None when that was tried before."""
        counts = self._content(opened)
        which = self._attempt % len(_STYLES)
        if (counts.tobytes(), which) in self._tried:
            return None
        self._tried.add((counts.tobytes(), which))
        rows = np.flatnonzero(counts)
        problem = self._problem.without_empty(counts)
        effort.used += _WORTH_UNITS + _PAIR_UNITS * len(rows) ** 1.5
        market = worth(problem, self._extended, presolved=False)
        if market is None:
            return None
        packed = packed_with(problem, market, _STYLES[which], effort, _EFFICIENCY_SLACK)
        return [p._replace(classes=rows[p.classes]) for p in packed]

    def _content(self, machines: list[Pattern]) -> Counts:
        found = np.zeros_like(self._problem.counts)
        for machine in machines:
            found[machine.classes] += machine.counts
        return found
