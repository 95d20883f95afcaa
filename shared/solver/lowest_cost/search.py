"""Makes several packings, chooses the cheapest, and improves it while effort is left.

What may go wrong: when ``worth`` finds no prices, each pod counts with its share of the best offering for it. The
packing is valid then, but not as cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shared.solver.encode import Indices
from shared.solver.lowest_cost.bound.dual import Worth, worth
from shared.solver.lowest_cost.contents.columns import better_prices
from shared.solver.lowest_cost.contents.dive import Dive
from shared.solver.lowest_cost.contents.exchange import Exchange
from shared.solver.lowest_cost.contents.reopened import ContentsTrial
from shared.solver.lowest_cost.contents.whole import (
    Whole,
    cheapest_mix,
    combined,
    whole_machines,
)
from shared.solver.lowest_cost.fill import Effort, Style, pack, right_sized
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem, cost_of, rank
from shared.solver.lowest_cost.tail import Tail, packed_with

STYLES = (
    Style(share=1.3, size=1.5, bulk=0.0),
    Style(share=1.3, size=1.5, bulk=0.6),
    Style(share=1.3, size=np.inf, bulk=0.0),
    Style(share=1.3, size=2.0, bulk=1.0),
)
GOOD_ENOUGH = 1.01
"""A packing that costs at most this multiple of the bound is not improved any more."""
_SMALL = Style(share=np.inf, size=np.inf, bulk=0.0, tolerance=0.0)
DIVING_EFFORT, _ROUNDS_PER_STEP = 200, (2, 6)
"""Less effort does not give a mix that is worth rounding; a few times as much serves a second rounding. None is the
better one everywhere."""
_EFFORT_PER_DIVE = 500
_REPACKED_ROUNDS = 3
"""How often contents are looked for after each step of a rounding."""
_TAIL_SHARE, _MOST_TAILS, _LEAST_TAIL_GAIN = 0.25, 2, 0.001
"""The tail gets this share of the rounding's units, and again while that saves a thousandth of the cost."""
_EXCHANGES_SHARE = 0.2
_REOPENED_SHARE, _REOPENED_PODS = 0.5, 300
"""Of the rounding's units, for few machines at once whose contents are searched for anew; with fewer pods less of it,
as these plans should be there sooner and gain little."""
_MIX_SHARE = 0.25
"""Of the rounding's units, for the search for contents of the cheapest mix."""
_FULL_UNITS = 2000.0
"""With fewer units, as plans of consolidation have, there is no such search, and pods of few kinds, for which programs
over whole machines can be solved, are not repacked too."""
_FEW_KINDS_SHARE = 0.125
"""Of the units for each stage of few kinds alone: twice as much gains a thousandth in one workload of ten."""
_SHARE_POWER = 0.75
"""A pool's share of the work, as a power of its share of the pods. With 1, sixteen pools of 50 pods each cost 0.7 %
more in three fifths of the time; with 0.5 1.1 % less in three times as much."""
_BEST = 1.002
"""A packing that costs at most this multiple of the bound is the best one."""
_FIRST, _HALF, _ALL = 0.25, 0.5, 1.0
"""Shares of the remaining effort."""


@dataclass(frozen=True)
class Work:
    """What a packing may do, in units of ``Effort``."""

    effort: Effort
    """Of all stages together, except those below."""
    own: float
    """Of each stage for small problems, and of the exchanges at the end."""
    units: float
    """Of the rounding of the mix of all pods; 0: there is none."""

    def share(self, pods: int, *, left: int, asked: int) -> Work:
        """What packing these pods may do, of ``asked`` in all pools, of which ``left`` have none yet: without shares,
        fifty pools would take fifty times as long as one."""
        share = (pods / asked) ** _SHARE_POWER
        return Work(self.effort.part(pods / left), self.own * share, self.units * share)

    def part(self, parts: int) -> Work:
        """What one of so many equal parts of the pods may do."""
        if parts == 1:
            return self
        return Work(Effort(self.effort.most / parts), self.own / parts, self.units / parts)


def best_patterns(problem: Problem, extended: Indices, work: Work) -> list[Pattern]:
    """The cheapest packing that was found, for all pods that fit an offering."""
    if not problem.fits.any():
        return []
    chosen = _worth_trying(problem)
    found = _best(problem.with_offers(chosen), extended, work)
    return [p._replace(offer=int(chosen[p.offer])) for p in found]


def _worth_trying(problem: Problem) -> Indices:
    """The offerings to search.

    All of them where limits per host force more machines than there are classes: many of these machines are changed
    when they are built, and one without a fixed zone then takes more pods. Elsewhere duplicates are left out.
    """
    return np.arange(len(problem.price)) if _many_hosts(problem) else _without_duplicates(problem)


def _many_hosts(problem: Problem) -> bool:
    """Do limits per host force more machines than there are classes?"""
    grouped = problem.groups >= 0
    sizes = np.bincount(
        problem.groups[grouped], problem.counts[grouped], minlength=len(problem.slots)
    )
    return bool((sizes > len(problem.counts) * problem.slots).any())


def _exchanged(
    problem: Problem, market: Worth, packings: list[list[Pattern]], whole: Whole, most: float
) -> list[Pattern]:
    """The cheapest of these packings and of those that roundings of the mix give, each after exchanges of machines.

    The exchanges go by the prices of the mix, which know limits per host. Each of these stages may take ``most`` units.
    Known contents of whole machines are not in the first mix: they leave little choice to round.
    """
    first = Dive(problem, market, packings)
    dives = [(first, _ROUNDS_PER_STEP[0])]
    if most > _EFFORT_PER_DIVE:
        again = Dive(problem, whole.market, [*packings, whole.contents])
        dives.append((again, _ROUNDS_PER_STEP[1]))
    started = [(packings[0], dives[-1][0])]
    for dive, rounds in dives:
        found = _rounded(problem, dive, rounds, most)
        if found is not None:
            started.append((found, dive))
    ended = [Exchange(problem, dive.market).improved(one, Effort(most)) for one, dive in started]
    return _cheapest(problem, ended)


def _rounded(problem: Problem, dive: Dive, rounds: int, most: float) -> list[Pattern] | None:
    """A packing of all pods from the mix, rounded in steps; None when the solver fails."""
    effort = Effort(most)
    found = dive.run(effort, rounds)
    if found is None:
        return None
    unlimited = np.full(len(problem.price), np.inf)
    left = found.left
    rest = pack(problem, found.prices, unlimited, _SMALL, effort, left) if left.any() else []
    return right_sized(problem, [*found.machines, *rest])


def _repacked(
    problem: Problem, market: Worth, extended: Indices, packings: list[list[Pattern]], units: float
) -> list[Pattern]:
    """The cheapest packing that repacking, rounding of the mix and exchanges give, in this order.

    Repacking half of the machines at once helps the most where machines are few, and rounding the mix where limits per
    host force many of them. Exchanges of a few machines come last. With all units this is done once more with the
    contents of a cheaper mix, unless the packing is nearly as cheap as that.
    """
    best = _cheapest(problem, packings)
    best = _without_tail(Tail(problem, market, extended), problem, best, units)
    dive = Dive(problem, market, [best, *packings])
    best = _best_of_mix(problem, dive, extended, best, units)
    if units < _FULL_UNITS:
        return best
    mix = cheapest_mix(problem, market, [best, *packings], Effort(_MIX_SHARE * units))
    if mix is None or cost_of(best, problem.price) <= mix.prices.bound * GOOD_ENOUGH:
        return best
    again = Dive(problem, mix.prices, [best, *packings, dive.contents, mix.contents])
    found = _best_of_mix(problem, again, extended, best, units, combines=True)
    share = _REOPENED_SHARE * min(1.0, int(problem.counts.sum()) / _REOPENED_PODS)
    reopening = Exchange(problem, mix.prices, ContentsTrial.of)
    return reopening.improved(_cheapest(problem, [best, found]), Effort(share * units))


def _best_of_mix(
    problem: Problem,
    dive: Dive,
    extended: Indices,
    best: list[Pattern],
    units: float,
    *,
    combines: bool = False,
) -> list[Pattern]:
    """The cheaper one of this packing and of a rounding of the mix, after exchanges. ``combines``: a program looks for
    the cheapest machines of all contents before these."""
    rounded = _rounded(problem, dive, _REPACKED_ROUNDS, units)
    if rounded is not None:
        tail = Tail(problem, dive.market, extended)
        best = _cheapest(problem, [best, _without_tail(tail, problem, rounded, units)])
    found = combined(problem, dive.contents, best, Effort(units)) if combines else None
    if found is not None:
        best = _cheapest(problem, [best, right_sized(problem, found)])
    return Exchange(problem, dive.market).improved(best, Effort(_EXCHANGES_SHARE * units))


def _without_tail(
    tail: Tail, problem: Problem, packing: list[Pattern], units: float
) -> list[Pattern]:
    """The packing, its least efficient machines repacked for as long as that gains."""
    for _ in range(_MOST_TAILS):
        before = cost_of(packing, problem.price)
        packing = tail.improved(packing, Effort(_TAIL_SHARE * units))
        if cost_of(packing, problem.price) > before * (1 - _LEAST_TAIL_GAIN):
            break
    return packing


def _without_duplicates(problem: Problem) -> Indices:
    """Offerings without those that equal another in size and price and that fewer classes may use.

    Offerings in a single zone have no duplicate if some class must be in that zone.
    """
    users = problem.may.sum(axis=0)
    best: dict[tuple[bytes, float], list[int]] = {}
    for offer in map(int, np.argsort(-users, kind="stable")):
        equal = best.setdefault((problem.capacity[offer].tobytes(), problem.price[offer]), [])
        may = problem.may[:, offer]
        if not any((may <= problem.may[:, other]).all() for other in equal):
            equal.append(offer)
    return np.array(sorted(offer for equal in best.values() for offer in equal), dtype=np.intp)


def _best(problem: Problem, extended: Indices, work: Work) -> list[Pattern]:
    """The cheapest packing of the first ones and of those that the improvement stages make."""
    effort, own, units = work.effort, work.own, work.units
    market = worth(problem, extended) or _shares(problem)
    packings = _packings(problem, market, effort)
    best = _cheapest(problem, packings)
    # Small problems have a budget of their own, so that they take nothing from pools that come later.
    whole = whole_machines(problem, market, best, Effort(own))
    if whole is not None and whole.machines is not None:
        best = _cheapest(problem, [best, right_sized(problem, whole.machines)])
    known = market if whole is None else whole.market
    if cost_of(best, problem.price) <= known.bound * _BEST:
        return best
    if units >= (_FULL_UNITS if whole else 1):
        best = _repacked(problem, market, extended, [best, *packings], units)
        if whole is None:
            return best
    best = _staged(problem, market, extended, [best, *packings], known.bound * GOOD_ENOUGH, effort)
    if whole is not None and units:
        most = max(own, _FEW_KINDS_SHARE * units)
        best = _exchanged(problem, market, [best, *packings], whole, most)
    return Exchange(problem, known).improved(best, Effort(own))


def _staged(
    problem: Problem,
    market: Worth,
    extended: Indices,
    packings: list[list[Pattern]],
    enough: float,
    effort: Effort,
) -> list[Pattern]:
    """The first packing, improved in stages until it costs at most ``enough`` or the effort is used up."""
    best = packings[0]
    tail = Tail(problem, market, extended)
    for by_mix, share in _stages(problem, best):
        if not effort.is_left or cost_of(best, problem.price) <= enough:
            break
        part = effort.part(share)
        if by_mix:
            mixed = _mixed(problem, market, [best, *packings[1:]], part)
            best = _cheapest(problem, [best, *mixed])
        else:
            best = tail.improved(best, part)
        effort.spend(part)
    return best


def _stages(problem: Problem, packing: list[Pattern]) -> tuple[tuple[bool, float], ...]:
    """The improvement stages: (True: column generation, False: repacking the tail; share of the remaining effort).

    The mix of column generation has about as many fractional machines as there are classes, so it comes later when the
    packing has fewer machines than that.
    """
    if sum(p.copies for p in packing) > len(problem.counts):
        return (True, _ALL), (False, _ALL)
    return (False, _HALF), (True, _HALF), (False, _ALL)


def _packings(problem: Problem, market: Worth, effort: Effort) -> list[list[Pattern]]:
    """A packing per style, at least one."""
    part = effort.part(_FIRST)
    found: list[list[Pattern]] = []
    for style in STYLES:
        if not found or part.is_left:
            found.append(packed_with(problem, market, style, part))
    effort.spend(part)
    return found


def _cheapest(problem: Problem, packings: list[list[Pattern]]) -> list[Pattern]:
    """The cheapest packing; of equal costs the one with fewer machines."""
    return min(packings, key=lambda found: rank(found, problem.price))


def _mixed(
    problem: Problem, market: Worth, packings: list[list[Pattern]], effort: Effort
) -> list[list[Pattern]]:
    """Packings made with the pod prices of column generation."""
    half = effort.part(_HALF)
    solved = better_prices(problem, market, packings, half)
    effort.spend(half)
    if solved is None:
        return []
    prices, mix = solved
    unlimited = np.full(len(problem.price), np.inf)
    left, whole = _without_excess(problem, mix)
    rest = pack(problem, prices, unlimited, _SMALL, effort, left)
    found = [right_sized(problem, [*whole, *rest])]
    if effort.is_left:
        again = pack(problem, prices, unlimited, STYLES[0], effort)
        found.append(right_sized(problem, again))
    return found


def _without_excess(problem: Problem, mix: list[Pattern]) -> tuple[Counts, list[Pattern]]:
    """(pods that the mix does not cover, the mix without pods that it covers more than once)."""
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


def _shares(problem: Problem) -> Worth:
    """A pod's worth without a linear program: the price of its share of the best offering for it."""
    size = np.maximum(problem.capacity, 1.0)
    pods: Floats = np.zeros(len(problem.counts))
    for row, request in enumerate(problem.requests):
        share = (request / size).max(axis=1) * problem.price
        pods[row] = np.where(problem.fits[row], share, np.inf).min(initial=np.inf)
    pods = np.where(np.isfinite(pods), pods, 0.0)
    return Worth(pods, np.full(len(problem.price), np.inf), 0.0)
