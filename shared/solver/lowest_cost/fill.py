"""Fills machines with classes of pods so that their content is worth as much as possible per dollar.

Each round fills every promising offering, keeps the most efficient contents and buys as many copies
as there are pods for. A class first takes no more than its share of what is left: machines stay
mixed, and what remains later is not all memory or all CPU.

Work is counted, not timed: one unit is about a millisecond on a usual core.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from shared.solver.encode import Indices, Mask
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem

_AT_ONCE = 32
"""Offerings filled in one go."""
_SLACK = 0.02
"""How much better than in the last round an offering is expected to become at most."""
_STEP_UNITS, _CELL_UNITS = 0.09, 0.000_026
"""Of one fill step: fixed, and per machine, class and resource."""
_LEAST_WORTH = 1e-6
_HURRIED_TOLERANCE = 0.03
"""A packing is finished whatever it takes. Once the effort is used up it hurries: each round looks at the most
promising offerings only and buys more of them."""
_COMPRESS_EVERY = 4


@dataclass(frozen=True)
class Style:
    """One set of parameters of the packer; none is best everywhere."""

    share: float
    """A class's first portion, as a multiple of its proportional share."""
    size: float
    """Machines at most this much larger than the average that host limits force."""
    bulk: float
    """How much more large pods count: they are hard to place late."""
    tolerance: float = 0.008
    """Contents this much less efficient than the best are bought in the same round."""
    portion: int = 2
    """A step takes one part in so many of what fits."""


@dataclass(slots=True)
class Effort:
    """Units of work: how many there are, and how many are used."""

    most: float
    used: float = 0.0

    @property
    def is_left(self) -> bool:
        return self.used < self.most

    def part(self, share: float) -> Effort:
        """A share of what is left, to be told back by ``spend``."""
        return Effort(self.used + (self.most - self.used) * share, self.used)

    def spend(self, part: Effort) -> None:
        """What was done in a part counts."""
        self.used = part.used

    def step(self, cells: int) -> None:
        """One step of filling so many machines times classes times resources."""
        self.used += _STEP_UNITS + cells * _CELL_UNITS


def fill(
    problem: Problem,
    worth: Floats,
    first: Counts,
    offers: Indices,
    portion: int,
    effort: Effort,
) -> Counts:
    """[offers, classes]: pods per machine. ``first``: [offers, classes], the first portion."""
    filling = _Filling(problem, worth, offers, portion)
    for limit in (np.minimum(first, problem.counts), np.broadcast_to(problem.counts, first.shape)):
        filling.run(limit, effort)
    return filling.taken


class _Filling:
    """Machines while they are filled. Columns of classes that fit nowhere any more are dropped."""

    def __init__(self, problem: Problem, worth: Floats, offers: Indices, portion: int) -> None:
        self._problem = problem
        self._worth = worth
        self._portion = portion
        self._possible = problem.fits[:, offers].T & (worth > 0)
        self._grouped = np.flatnonzero(problem.groups >= 0)
        self._slots = np.repeat(problem.slots[None, :], len(offers), axis=0)
        self._sizes = np.ascontiguousarray(problem.requests.T)
        self._divisor = np.where(problem.requests > 0, problem.requests, 1.0)
        self._unasked = np.where(problem.requests > 0, 0.0, np.inf)
        self.room = problem.capacity[offers].copy()
        self.taken = np.zeros((len(offers), len(worth)), dtype=np.int64)

    def run(self, limit: Counts, effort: Effort) -> None:
        """Repeats: the class that is worth most for the scarce room it takes; ends when nothing
        fits below ``limit``: [offers, classes]."""
        open_to = self._possible & (limit > self.taken)
        if self._grouped.size:
            groups = self._problem.groups[self._grouped]
            open_to[:, self._grouped] &= self._slots[:, groups] > 0
        rows, classes = np.arange(len(open_to)), np.arange(open_to.shape[1])
        for step in itertools.count():
            if step % _COMPRESS_EVERY == 0:
                tall = np.flatnonzero(np.any(open_to, axis=1))
                wide = np.flatnonzero(np.any(open_to, axis=0))
                rows, classes = rows[tall], classes[wide]
                open_to = open_to.take(tall, axis=0).take(wide, axis=1)
                sizes = self._sizes.take(classes, axis=1)
                worth = self._worth[classes]
                grouped = self._problem.groups[classes] if self._grouped.size else None
                lines = np.arange(len(rows))
                within = np.empty(open_to.shape, dtype=np.bool_)
                score = np.empty(open_to.shape)
            if not open_to.size:
                return
            room = self.room[rows]
            for resource, size in enumerate(sizes):
                np.less_equal(size, room[:, resource, None], out=within)
                np.logical_and(open_to, within, out=open_to)
            np.matmul(1.0 / np.maximum(room, 1e-9), sizes, out=score)
            np.divide(worth, score, out=score)
            np.multiply(score, open_to, out=score)
            best = score.argmax(axis=1)
            active = open_to[lines, best].nonzero()[0]
            effort.step(open_to.size * len(sizes))
            if not len(active):
                return
            columns = best[active]
            full = self._take(rows[active], classes[columns], limit)
            open_to[active[full], columns[full]] = False
            if grouped is not None:
                self._close_groups(open_to, rows, grouped, active, columns)

    def _take(self, rows: Indices, classes: Indices, limit: Counts) -> Mask:
        """Puts a portion on each machine; which classes have reached their limit there."""
        left = limit[rows, classes] - self.taken[rows, classes]
        times = self.room.take(rows, axis=0) / self._divisor.take(classes, axis=0)
        times += self._unasked.take(classes, axis=0)
        portion = np.maximum(np.floor(times.min(axis=1)) // self._portion, 1.0)
        count = np.minimum(portion, left).astype(np.int64)
        if self._grouped.size:
            group = self._problem.groups[classes]
            slots = np.where(group >= 0, self._slots[rows, group], count)
            count = np.minimum(count, slots)
            self._slots[rows, group] -= count * (group >= 0)
        self.taken[rows, classes] += count
        self.room[rows] -= count[:, None] * self._problem.requests.take(classes, axis=0)
        full: Mask = left <= count
        return full

    def _close_groups(
        self, open_to: Mask, rows: Indices, groups: Indices, active: Indices, columns: Indices
    ) -> None:
        """No more pods of a group where its slots are used up."""
        group = groups[columns]
        limited = (group >= 0).nonzero()[0]
        if limited.size:
            used_up = self._slots[rows[active[limited]], group[limited]] <= 0
            for i in limited[used_up]:
                open_to[active[i], groups == group[i]] = False


def pack(
    problem: Problem,
    worth: Floats,
    efficiency: Floats,
    style: Style,
    effort: Effort,
    counts: Counts | None = None,
) -> list[Pattern]:
    """All pods of the problem as machines. Pods that no offering fits are left out.

    ``efficiency``: [offers], the most that any content can be worth, as a share of the price.
    """
    left = (problem.counts if counts is None else counts).copy()
    left[~problem.fits.any(axis=1)] = 0
    worth = _weighted(problem, np.maximum(worth, _LEAST_WORTH), style)
    bound = efficiency if style.bulk == 0 else np.full(len(efficiency), np.inf)
    last = np.full(len(efficiency), 2.0)
    found: list[Pattern] = []
    while (left > 0).any():
        classes = np.flatnonzero(left > 0)
        now = problem.without_empty(left)
        contents = _promising(now, worth[classes], bound, last, style, effort)
        if not contents:
            break
        found += _bought(now, classes, left, contents, style)
    return found


def _weighted(problem: Problem, worth: Floats, style: Style) -> Floats:
    """A pod that fills much of a machine counts for more."""
    if style.bulk == 0:
        return worth
    usual = problem.capacity[np.argmin(problem.price / np.maximum(problem.capacity[:, 0], 1))]
    share = (problem.requests / np.maximum(usual, 1.0)).max(axis=1)
    found: Floats = worth * (1 + style.bulk * np.minimum(share, 1.0) ** 1.5)
    return found


Content = tuple[float, int, Counts]
"""Efficiency, offer, pods per class."""


def _promising(
    now: Problem, worth: Floats, bound: Floats, last: Floats, style: Style, effort: Effort
) -> list[Content]:
    """Contents within the tolerance of the best, best first. Updates ``last``."""
    total = float(now.counts @ worth)
    expected = np.minimum(bound, last + _SLACK)
    expected[~now.fits.any(axis=0)] = -1.0
    expected[now.price > _dearest(now, total, style)] = -1.0
    order = np.argsort(-expected, kind="stable")
    best, found = 0.0, []
    tolerance = style.tolerance if effort.is_left else _HURRIED_TOLERANCE
    for start in range(0, len(order), _AT_ONCE):
        offers = order[start : start + _AT_ONCE]
        offers = offers[expected[offers] >= max(best - tolerance, 0.0)]
        if not len(offers):
            break
        share = np.minimum(now.price[offers] / total * style.share, 1.0)
        first = (now.counts[None, :] * share[:, None]).astype(np.int64) + 1
        taken = fill(now, worth, first, offers, style.portion, effort)
        last[offers] = reached = (taken @ worth) / now.price[offers]
        found += [(float(e), int(o), t) for e, o, t in zip(reached, offers, taken, strict=True)]
        best = max(best, float(reached.max()))
        if not effort.is_left:
            break
    kept = [c for c in found if c[0] > 0 and c[0] >= best - tolerance]
    return sorted(kept, key=lambda content: -content[0])


def _dearest(now: Problem, total: float, style: Style) -> float:
    """Where host limits force many machines, none much larger than their average."""
    grouped = now.groups >= 0
    if not grouped.any() or not np.isfinite(style.size):
        return np.inf
    pods = np.bincount(now.groups[grouped], now.counts[grouped], minlength=len(now.slots))
    forced = float((pods / now.slots).max())
    if forced < 2:
        return np.inf
    usable = now.fits.any(axis=0)
    cheapest = np.where(now.fits[:, usable], now.price[usable], np.inf).min(axis=1).max()
    return max(style.size * total / forced, 1.5 * float(cheapest))


def _bought(
    now: Problem, classes: Indices, left: Counts, contents: list[Content], style: Style
) -> list[Pattern]:
    """As many copies of each content as there are pods for. Takes them from ``left``."""
    found = []
    for _, offer, taken in contents:
        held = np.flatnonzero(taken)
        copies = int((left[classes[held]] // taken[held]).min())
        if copies > 0:
            left[classes[held]] -= copies * taken[held]
            found.append(Pattern(offer, classes[held], taken[held], copies))
    return found


def right_sized(problem: Problem, patterns: list[Pattern]) -> list[Pattern]:
    """Each content on the cheapest offering that holds it."""
    found = []
    for pattern in patterns:
        content = pattern.counts @ problem.requests[pattern.classes]
        holds = problem.fits[pattern.classes].all(axis=0)
        holds &= (problem.capacity >= content).all(axis=1)
        price = np.where(holds, problem.price, np.inf)
        found.append(pattern._replace(offer=int(price.argmin())))
    return found
