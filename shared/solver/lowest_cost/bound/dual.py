"""A proved lower bound for the cost of machines, and a price for each pod, from a dual linear program.

Offerings that the same classes may use form a market. In a market each resource has one price, such that no content of
a machine is worth more than the machine costs. A pod's price is the lowest that any market gives it. The linear program
maximises these prices; the sum over all pods is the bound. Rules that do not concern amounts are ignored: see
``Plan.relaxed``.

What may go wrong: the solver stops without a solution; then there are neither bound nor prices (None).
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from shared.solver.encode import Indices, Mask
from shared.solver.lowest_cost.problem import Floats, Problem, distinct_rows

_MOST_PAIRS = 40_000
"""With more (class, market) pairs all offerings form one market, which gives a weaker bound in less time."""
_MOST_PIVOTS = 100_000
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Worth:
    """Prices in micro-USD per hour, rounded so that errors only lower the bound."""

    pods: Floats
    """[classes]: the price of one pod."""
    efficiency: Floats
    """[offers]: the most that any content can be worth, as a share of the offering's price."""
    bound: float


def worth(problem: Problem, extended: Indices, *, presolved: bool = True) -> Worth | None:
    """Solves the program; None without a solution.

    ``extended``: columns of extended resources such as GPUs. ``presolved``: False is faster without host groups.
    """
    if not len(problem.counts) or not (problem.price > 0).any():
        return None
    markets = _markets(problem, extended)
    member = _membership(problem, markets)
    if member.sum() > _MOST_PAIRS:
        markets = np.zeros_like(markets)
        member = _membership(problem, markets)
    size = problem.capacity.max(axis=0)
    scale = np.where(size > 0, size, 1.0)
    unit = float(problem.price.mean())
    prices = _solve(problem, markets, member, scale, unit, presolved=presolved)
    return None if prices is None else _safe(problem, markets, member, prices, scale, unit)


def _markets(problem: Problem, extended: Indices) -> Indices:
    """[offers]: number of the market."""
    rows = problem.may[distinct_rows(problem.may)[0]]
    parts = [np.packbits(rows, axis=0).T]
    for column in extended:
        amount = problem.capacity[:, column]
        per_unit = problem.capacity[:, 0] / np.maximum(amount, 1)
        shape = np.stack([np.log2(np.maximum(amount, 1)), np.log2(np.maximum(per_unit, 1))], axis=1)
        parts.append(np.where(amount[:, None] > 0, np.rint(shape) + 1, 0).astype(np.uint8))
    return distinct_rows(np.concatenate(parts, axis=1))[1]


def _membership(problem: Problem, markets: Indices) -> Mask:
    """[classes, markets]: some offering of the market fits the class."""
    found = np.zeros((len(problem.counts), int(markets.max()) + 1), dtype=np.bool_)
    for market in range(found.shape[1]):
        found[:, market] = problem.fits[:, markets == market].any(axis=1)
    return found


def _solve(
    problem: Problem,
    markets: Indices,
    member: Mask,
    scale: Floats,
    unit: float,
    *,
    presolved: bool,
) -> Floats | None:
    """[markets, resources + host groups]: scaled prices. Columns of the program: market prices, then pod prices."""
    width = len(scale) + len(problem.slots)
    offers = len(problem.price)
    block = markets[:, None] * width + np.arange(width)[None, :]
    slots = np.broadcast_to(problem.slots.astype(float), (offers, len(problem.slots)))
    content = np.concatenate([problem.capacity / scale, slots], axis=1)
    classes, at = np.nonzero(member)
    values = member.shape[1] * width
    asked = np.concatenate(
        [-(problem.requests[classes] / scale), _group_columns(problem, classes)], axis=1
    )
    pod_index = np.concatenate(
        [at[:, None] * width + np.arange(width)[None, :], values + classes[:, None]], axis=1
    )
    pod_value = np.concatenate([asked, np.ones((len(classes), 1))], axis=1)
    model = _Rows(values + len(problem.counts))
    model.add(block, content, problem.price / unit)
    model.add(pod_index, pod_value, np.zeros(len(classes)))
    # A class without a market must not count: its price would be unbounded.
    counted = problem.counts * member.any(axis=1)
    weights = counted / max(float(counted.sum()), 1.0)
    found = model.maximise(np.concatenate([np.zeros(values), weights]), presolved=presolved)
    return None if found is None else found[:values].reshape(member.shape[1], width)


def _group_columns(problem: Problem, classes: Indices) -> Floats:
    found = np.zeros((len(classes), len(problem.slots)))
    grouped = problem.groups[classes] >= 0
    found[grouped, problem.groups[classes][grouped]] = -1.0
    return found


class _Rows:
    """Constraints ``a x <= b`` over ``x >= 0``, stored without zeros."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._starts = [np.zeros(1, dtype=np.int32)]
        self._index: list[Indices] = []
        self._value: list[Floats] = []
        self._upper: list[Floats] = []

    def add(self, index: Indices, value: Floats, upper: Floats) -> None:
        kept = value != 0
        ends = int(self._starts[-1][-1]) + np.cumsum(kept.sum(axis=1))
        self._starts.append(ends.astype(np.int32))
        self._index.append(index[kept])
        self._value.append(value[kept])
        self._upper.append(upper)

    def maximise(self, weights: Floats, *, presolved: bool) -> Floats | None:
        upper = np.concatenate(self._upper)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self._columns, len(upper)
        model.col_cost_ = -weights
        model.col_lower_ = np.zeros(self._columns)
        model.col_upper_ = np.full(self._columns, highspy.kHighsInf)
        model.row_lower_ = np.full(len(upper), -highspy.kHighsInf)
        model.row_upper_ = upper
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.concatenate(self._starts)
        model.a_matrix_.index_ = np.concatenate(self._index).astype(np.int32)
        model.a_matrix_.value_ = np.concatenate(self._value)
        solver = quiet_solver()
        if not presolved:
            solver.setOptionValue("presolve", "off")
        solver.passModel(model)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return np.array(solver.getSolution().col_value, dtype=np.float64)


def quiet_solver() -> highspy.Highs:
    """A deterministic solver: one thread, fixed seed, simplex with a limit of pivots."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 0)
    solver.setOptionValue("solver", "simplex")
    solver.setOptionValue("simplex_iteration_limit", _MOST_PIVOTS)
    return solver


def _safe(
    problem: Problem,
    markets: Indices,
    member: Mask,
    prices: Floats,
    scale: Floats,
    unit: float,
) -> Worth:
    """Scales prices down so that rounding breaks no offering's constraint, then computes the bound."""
    width = len(scale)
    prices = np.maximum(prices, 0.0) * unit
    is_free = problem.price <= 0
    prices[markets[is_free]] = 0.0
    by_resource, by_slot = prices[:, :width] / scale, prices[:, width:]
    content = (problem.capacity * by_resource[markets]).sum(axis=1)
    content += by_slot[markets] @ problem.slots.astype(float)
    efficiency = np.where(is_free, np.inf, content / np.where(is_free, 1.0, problem.price))
    excess = max(1.0, float(efficiency[~is_free].max()))
    asked = problem.requests @ by_resource.T
    grouped = problem.groups >= 0
    asked[grouped] += by_slot[:, problem.groups[grouped]].T
    pods = np.where(member, asked, np.inf).min(axis=1, initial=np.inf) / excess
    pods = np.where(np.isfinite(pods), pods, 0.0) * (1 - _ROUNDING)
    bound = float(problem.counts @ pods)
    return Worth(pods, efficiency / excess, bound)
