"""Fills machines with classes of pods so that their content is worth as much as possible per dollar.

Each round fills every promising offering, keeps the most efficient contents, and adds as many copies of them as there
are pods for. At first a class takes no more than its share of the remaining pods, so that machines are mixed and the
remaining pods do not all need the same resource.

Work is counted, not timed, so that plans are deterministic: one unit is about a millisecond on a usual core.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from shared.solver.encode import Indices, Mask
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem

_OFFERS_AT_ONCE = 32
"""Offerings that are filled together."""
_EXPECTED_GAIN = 0.02
"""The most that an offering's efficiency is expected to rise from one round to the next."""
_STEP_UNITS, _CELL_UNITS = 0.09, 0.000_026
"""Units of one fill step: fixed, and per machine, class and resource."""
_LEAST_WORTH = 1e-6
_TOLERANCE_WITHOUT_EFFORT = 0.03
"""A packing is always finished. Once the effort is used up, each round fills only the most promising offerings and
accepts contents within this wider tolerance, so that there are fewer rounds."""
_COMPRESS_EVERY = 4


@dataclass(frozen=True)
class Style:
    """Parameters of ``pack``; no set is best for every problem."""

    share: float
    """A class's first portion, as a multiple of its proportional share."""
    size: float
    """Largest price of a machine, as a multiple of the average that host limits force."""
    bulk: float
    """Extra weight of large pods, which are hard to place late."""
    tolerance: float = 0.008
    """Contents at most this much less efficient than the best are used in the same round."""
    portion: int = 2
    """A step adds 1/portion of the pods that fit."""


@dataclass(slots=True)
class Effort:
    """A budget of work: units available and units used."""

    most: float
    used: float = 0.0

    @property
    def is_left(self) -> bool:
        return self.used < self.most

    def part(self, share: float) -> Effort:
        """A budget of a share of the remaining units; ``spend`` adds its use to this one."""
        return Effort(self.used + (self.most - self.used) * share, self.used)

    def spend(self, part: Effort) -> None:
        """Counts the work done in a part."""
        self.used = part.used

    def step(self, cells: int) -> None:
        """Counts one fill step. ``cells``: machines times classes times resources."""
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
    """Machines while they are filled, one per offering."""

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
        """Adds, step by step, the class that is worth most for the scarce room that it uses, until no pod fits.
        ``limit``: [offers, classes], the most pods."""
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
        """Adds a portion to each machine. Returns which classes have reached their limit there."""
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
        """Excludes a group's classes on machines where its slots are used up."""
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
    """Machines for all pods of the problem. Pods that fit no offering are left out.

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
        found += _copies(classes, left, contents)
    return found


def _weighted(problem: Problem, worth: Floats, style: Style) -> Floats:
    """The worth of each class, increased for pods that use much of a machine."""
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
    """Contents within the tolerance of the best one, best first. Updates ``last``, the efficiency per offering."""
    total = float(now.counts @ worth)
    expected = np.minimum(bound, last + _EXPECTED_GAIN)
    expected[~now.fits.any(axis=0)] = -1.0
    expected[now.price > _dearest(now, total, style)] = -1.0
    order = np.argsort(-expected, kind="stable")
    best, found = 0.0, []
    tolerance = style.tolerance if effort.is_left else _TOLERANCE_WITHOUT_EFFORT
    for start in range(0, len(order), _OFFERS_AT_ONCE):
        offers = order[start : start + _OFFERS_AT_ONCE]
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
    """The highest price of a machine: where host limits force many machines, about the average; else infinite."""
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


def _copies(classes: Indices, left: Counts, contents: list[Content]) -> list[Pattern]:
    """As many copies of each content as there are pods for. Subtracts these pods from ``left``."""
    found = []
    for _, offer, taken in contents:
        held = np.flatnonzero(taken)
        copies = int((left[classes[held]] // taken[held]).min())
        if copies > 0:
            left[classes[held]] -= copies * taken[held]
            found.append(Pattern(offer, classes[held], taken[held], copies))
    return found


def right_sized(problem: Problem, patterns: list[Pattern]) -> list[Pattern]:
    """The same contents, each on the cheapest offering that holds it."""
    found = []
    for pattern in patterns:
        content = pattern.counts @ problem.requests[pattern.classes]
        holds = problem.fits[pattern.classes].all(axis=0)
        holds &= (problem.capacity >= content).all(axis=1)
        price = np.where(holds, problem.price, np.inf)
        found.append(pattern._replace(offer=int(price.argmin())))
    return found
