"""Raises a configuration bound by whole machines: their numbers are whole in every plan.

The mix of the linear program has fractions of machines. A number of machines that is not whole, say 1.4 of one
offering, divides the plans into those with at most one and those with at least two. Each part has a linear program of
its own, and the lower of their bounds holds for all plans. The part with the lowest bound is divided next.
"""

from __future__ import annotations

import heapq
import math
from itertools import count
from typing import NamedTuple

import numpy as np

from shared.solver.lowest_cost.bound.configuration import Configuration
from shared.solver.lowest_cost.contents.columns import Limit
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Floats, Problem

_LEAST_FRACTION = 0.02
"""Numbers that are nearer to a whole one are not divided."""
_NOTHING = 1e-9
_MOST_PARTS = 2000
_BRANCHING_EFFORT = 800
"""Less effort is for plans that should be there at once."""
_COLUMN_UNITS = 0.02


class _Part(NamedTuple):
    """Some of all plans; the one with the lowest bound comes first."""

    bound: float
    number: int
    search: Configuration


def whole_bound(problem: Problem, prices: Floats, effort: Effort) -> int:
    """The bound in micro-USD per hour, rounded down: as high as it gets with this effort. More of it takes the same
    steps and then further ones. ``prices``: [classes], proved ones."""
    search = Configuration(problem, prices, [])
    if search.improve(effort) and effort.most >= _BRANCHING_EFFORT:
        return _branched(search, effort)
    return search.micro_usd_per_hour


def _branched(search: Configuration, effort: Effort) -> int:
    numbers = count()
    parts = [_Part(search.bound, next(numbers), search)]
    for _ in range(_MOST_PARTS):
        limits = _limits(parts[0].search) if effort.is_left else None
        if limits is None:
            break
        whole = heapq.heappop(parts).search
        for limit in limits:
            part = whole.limited(limit)
            effort.used += _COLUMN_UNITS * len(part.master.columns)
            part.improve(effort)
            heapq.heappush(parts, _Part(part.bound, next(numbers), part))
    return parts[0].search.micro_usd_per_hour


def _limits(search: Configuration) -> tuple[Limit, Limit] | None:
    """Two limits, one of which every plan keeps; None where no number of machines is far from a whole one."""
    price = search.problem.price
    used: Floats = np.zeros(len(price))
    for (offer, _), number in zip(search.master.columns, search.master.numbers, strict=False):
        used[offer] += number
    used[used < _NOTHING] = 0.0
    choices = [np.arange(len(price)) == offer for offer in np.flatnonzero(used)]
    choices += [price >= least for least in np.unique(price[used > 0])]
    best, found = 0.0, None
    for offers in choices:
        number = float(used[offers].sum())
        fraction = min(number % 1.0, 1.0 - number % 1.0)
        value = fraction * float(price[offers][used[offers] > 0].min())
        if fraction > _LEAST_FRACTION and value > best:
            least = math.floor(number)
            best, found = value, (Limit(offers, least, False), Limit(offers, least + 1, True))
    return found
