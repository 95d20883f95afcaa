"""The cheapest of several packings, and improving it while there is effort left.

What may go wrong: without prices for pods (``worth`` found none) each pod counts with the share of
the cheapest machine it takes, which packs soundly but not as well.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shared.solver.encode import Indices
from shared.solver.lowest_cost.columns import better_prices
from shared.solver.lowest_cost.dual import Worth, worth
from shared.solver.lowest_cost.fill import Effort, Style, pack, right_sized
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem, cost_of

STYLES = (
    Style(share=1.3, size=1.5, bulk=0.0),
    Style(share=1.3, size=1.5, bulk=0.6),
    Style(share=1.3, size=np.inf, bulk=0.0),
    Style(share=1.3, size=2.0, bulk=1.0),
)
GOOD_ENOUGH = 1.03
"""Packings this close to the bound are not improved any more."""


_SMALL = Style(share=np.inf, size=np.inf, bulk=0.0, tolerance=0.0)
_SEARCH_STYLES = (STYLES[0], _SMALL, STYLES[1], replace(_SMALL, portion=1))
_NEIGHBOURS = (3, 6, 2, 9, 4)
"""How many machines are packed anew at once."""
_IN_VAIN = 30
"""Attempts without a gain after which the search ends."""


def best_patterns(problem: Problem, extended: Indices, effort: Effort) -> list[Pattern]:
    """Machines for all pods that fit an offering."""
    if not problem.fits.any():
        return []
    market = worth(problem, extended) or _shares(problem)
    packings: list[list[Pattern]] = []
    for style in STYLES:
        if not packings or effort.is_left:
            packed = pack(problem, market.pods, market.efficiency, style, effort)
            packings.append(right_sized(problem, packed))
    best = _cheapest(problem, packings)
    if effort.is_left and cost_of(best, problem.price) > market.bound * GOOD_ENOUGH:
        prices, found = _improved(problem, market, packings, effort)
        best = _cheapest(problem, [best, *found])
        best = _searched(problem, prices, best, effort)
    return best


def _cheapest(problem: Problem, packings: list[list[Pattern]]) -> list[Pattern]:
    return min(packings, key=lambda found: cost_of(found, problem.price))


def _improved(
    problem: Problem, market: Worth, packings: list[list[Pattern]], effort: Effort
) -> tuple[Floats, list[list[Pattern]]]:
    """Better worth per class, and packings made with it."""
    half = Effort(effort.used + (effort.most - effort.used) / 2, effort.used)
    solved = better_prices(problem, market, packings, half)
    effort.used = half.used
    if solved is None:
        return market.pods, []
    prices, mix = solved
    unlimited = np.full(len(problem.price), np.inf)
    left, whole = _without_excess(problem, mix)
    rest = pack(problem, prices, unlimited, _SMALL, effort, left)
    found = [right_sized(problem, [*whole, *rest])]
    if effort.is_left:
        again = pack(problem, prices, unlimited, STYLES[0], effort)
        found.append(right_sized(problem, again))
    return prices, found


def _without_excess(problem: Problem, mix: list[Pattern]) -> tuple[Counts, list[Pattern]]:
    """The mix covers some pods more than once: what is left after it, and the mix without that."""
    left = np.where(problem.fits.any(axis=1), problem.counts, 0)
    kept = []
    for pattern in mix:
        for _ in range(pattern.copies):
            counts = np.minimum(pattern.counts, left[pattern.classes])
            held = counts > 0
            if held.any():
                left[pattern.classes] -= counts
                kept.append(Pattern(pattern.offer, pattern.classes[held], counts[held], 1))
    return left, kept


def _searched(
    problem: Problem, prices: Floats, best: list[Pattern], effort: Effort
) -> list[Pattern]:
    """Packs a few machines anew, those of the least value first, and keeps what is cheaper."""
    machines = [p._replace(copies=1) for p in best for _ in range(p.copies)]
    unlimited = np.full(len(problem.price), np.inf)
    tried: set[tuple[bytes, int]] = set()
    start = attempt = in_vain = 0
    while effort.is_left and in_vain < _IN_VAIN and len(machines) > 1:
        size = min(_NEIGHBOURS[attempt % len(_NEIGHBOURS)], len(machines))
        start = start if start < len(machines) else 0
        machines.sort(key=lambda p: _value(problem, prices, p))
        taken = [(start + i * (1 + attempt % 3)) % len(machines) for i in range(size)]
        chosen = [machines[i] for i in sorted(set(taken))]
        counts, which = _content(problem, chosen), attempt % len(_SEARCH_STYLES)
        attempt, start, in_vain = attempt + 1, start + size // 2 + 1, in_vain + 1
        if (counts.tobytes(), which) in tried:
            continue
        tried.add((counts.tobytes(), which))
        style = _SEARCH_STYLES[which]
        packed = pack(problem, prices, unlimited, style, effort, counts)
        again = right_sized(problem, packed)
        if cost_of(again, problem.price) < cost_of(chosen, problem.price) - 0.5:
            machines = [m for i, m in enumerate(machines) if i not in set(taken)]
            machines += [p._replace(copies=1) for p in again for _ in range(p.copies)]
            in_vain = 0
    return machines


def _value(problem: Problem, prices: Floats, pattern: Pattern) -> float:
    """Worth of the content per dollar."""
    return float(prices[pattern.classes] @ pattern.counts) / float(problem.price[pattern.offer])


def _content(problem: Problem, machines: list[Pattern]) -> Counts:
    found = np.zeros_like(problem.counts)
    for machine in machines:
        found[machine.classes] += machine.counts
    return found


def _shares(problem: Problem) -> Worth:
    """A pod's worth without a program: what its part of the best offering for it costs."""
    size = np.maximum(problem.capacity, 1.0)
    pods: Floats = np.zeros(len(problem.counts))
    for row, request in enumerate(problem.requests):
        share = (request / size).max(axis=1) * problem.price
        pods[row] = np.where(problem.fits[row], share, np.inf).min(initial=np.inf)
    pods = np.where(np.isfinite(pods), pods, 0.0)
    return Worth(pods, np.full(len(problem.price), np.inf), 0.0)
