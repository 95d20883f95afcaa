"""The cheapest whole machines out of known contents, for problems that are small enough to ask for them exactly."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import highspy
import numpy as np

from shared.solver.lowest_cost.bound.configuration import MOST_PAIRS, Configuration
from shared.solver.lowest_cost.bound.dual import Worth, quiet_solver
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem

_MOST_CLASSES = 30
_FEW_CLASSES, _FEW_PODS = 12, 400
_MACHINES_PER_CLASS = 2
"""With fewer machines most of the mix is not whole, and the integer program takes long and finds little."""
_MOST_NODES, _NODES_OF_MANY = 400, 100
_NODES_PER_UNIT, _NODES_OF_ONE_COLUMN = 0.125, 100_000
"""A program over all known contents may take so many nodes: of a share of the effort, and fewer of more contents."""
_MOST_COLUMNS = 1500
_NODE_UNITS, _COLUMN_UNITS = 0.2, 0.02
_NODES_OF_FEW, _PIVOT_UNITS = 100, 0.05
"""For few machines: a program with many contents takes most of its time before the first node."""
_LEAST_GAIN = 0.001


class Whole(NamedTuple):
    """What was found for a problem: machines that hold all pods if there are any, prices, and further contents."""

    machines: list[Pattern] | None
    market: Worth
    contents: list[Pattern]


class Mix(NamedTuple):
    """``prices``: of pods, whose bound no packing is below; ``contents``: all that are known."""

    prices: Worth
    contents: list[Pattern]


def whole_machines(
    problem: Problem, market: Worth, packing: list[Pattern], effort: Effort
) -> Whole | None:
    """The cheapest machines of known contents that hold all pods; None for a problem of too many classes.

    ``packing``: holds all pods; its contents are known at first, further ones are searched for: those of the cheapest
    mix, and then those that a plan cheaper than the best so far may have.
    """
    if len(problem.counts) > _MOST_CLASSES:
        return None
    search = Configuration(problem, market.pods, packing)
    search.improve(effort)
    contents = list(search.master.patterns)
    return Whole(_machines(search, packing, effort), search.market(), contents)


def cheapest_mix(
    problem: Problem, market: Worth, packings: list[list[Pattern]], effort: Effort
) -> Mix | None:
    """The cheapest mix of contents, as far as ``effort`` goes; None for too many pairs of a class and an offering.

    Its tables find contents that rounding down fractional ones misses: in small machines one pod is much of the room.
    """
    if problem.fits.sum() > MOST_PAIRS:
        return None
    search = Configuration(problem, market.pods, [one for some in packings for one in some])
    search.improve(effort)
    return Mix(search.market(), search.master.patterns)


def cheapest_contents(
    problem: Problem, prices: Floats, packing: list[Pattern], effort: Effort
) -> list[Pattern] | None:
    """The cheapest machines of the contents that the search for the cheapest mix finds; None where that mix shows that
    nothing is much cheaper. ``prices``: [classes], proved ones; ``packing``: holds all pods. For few machines."""
    search = Configuration(problem, prices, packing)
    search.improve(effort)
    cost = sum(problem.price[one.offer] * one.copies for one in packing)
    if search.micro_usd_per_hour >= cost * (1 - _LEAST_GAIN):
        return None
    known = search.master.patterns
    start = _copies(packing, known)
    copies = _solved(problem, known, start, effort, _NODES_OF_FEW, _PIVOT_UNITS)
    return None if copies is None else _without_excess(problem, known, copies)


def combined(
    problem: Problem, contents: list[Pattern], packing: list[Pattern], effort: Effort
) -> list[Pattern] | None:
    """The cheapest machines of these contents, as far as some nodes of an integer program find them; None for too many
    contents. ``packing``: holds all pods; the program begins with it."""
    fitting = problem.fits.any(axis=1)
    asked = replace(problem, counts=np.where(fitting, problem.counts, 0))
    known = list({_identity(one): one for one in (*contents, *packing)}.values())
    if len(known) > _MOST_COLUMNS:
        return None
    nodes = int(min(_NODES_PER_UNIT * effort.most, _NODES_OF_ONE_COLUMN / len(known)))
    copies = _solved(asked, known, _copies(packing, known), effort, nodes)
    return None if copies is None else _without_excess(asked, known, copies)


def _machines(
    search: Configuration, packing: list[Pattern], effort: Effort
) -> list[Pattern] | None:
    problem, known = search.problem, search.master.patterns
    classes = len(problem.counts)
    is_small = classes <= _FEW_CLASSES and problem.counts.sum() <= _FEW_PODS
    if not is_small and sum(one.copies for one in packing) < _MACHINES_PER_CLASS * classes:
        return None
    nodes = _MOST_NODES if is_small else _NODES_OF_MANY
    copies = _solved(problem, known, _copies(packing, known), effort, nodes)
    if copies is None:
        return None
    cost = float(copies @ problem.price[[one.offer for one in known]])
    search.add_neighbours(cost, effort)
    start = np.append(copies, np.zeros(len(known) - len(copies), dtype=np.int64))
    better = _solved(problem, known, start, effort, nodes)
    return None if better is None else _without_excess(problem, known, better)


def _identity(pattern: Pattern) -> tuple[int, bytes, bytes]:
    return pattern.offer, pattern.classes.tobytes(), pattern.counts.tobytes()


def _copies(packing: list[Pattern], known: list[Pattern]) -> Counts:
    """[known]: how many of each the packing has."""
    numbers = Counter[tuple[int, bytes, bytes]]()
    for pattern in packing:
        numbers[_identity(pattern)] += pattern.copies
    return np.array([numbers[_identity(pattern)] for pattern in known], dtype=np.int64)


def _solved(
    problem: Problem,
    known: list[Pattern],
    start: Counts,
    effort: Effort,
    most_nodes: int,
    pivot_units: float = 0.0,
) -> Counts | None:
    """Copies of each content. ``start``: copies that hold all pods, to begin with; ``pivot_units``: of effort, for each
    iteration of the simplex method."""
    unit = float(problem.price.mean())
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(known), len(problem.counts)
    model.col_cost_ = problem.price[[one.offer for one in known]] / unit
    model.col_lower_ = np.zeros(len(known))
    most = [float((-(-problem.counts[one.classes] // one.counts)).max()) for one in known]
    model.col_upper_ = np.array(most)
    model.row_lower_ = problem.counts.astype(np.float64)
    model.row_upper_ = np.full(len(problem.counts), highspy.kHighsInf)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lengths = [len(one.classes) for one in known]
    model.a_matrix_.start_ = np.append(0, np.cumsum(lengths)).astype(np.int32)
    model.a_matrix_.index_ = np.concatenate([one.classes for one in known]).astype(np.int32)
    model.a_matrix_.value_ = np.concatenate([one.counts for one in known]).astype(np.float64)
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(known)
    solver = quiet_solver()
    solver.setOptionValue("solver", "choose")
    solver.setOptionValue("mip_max_nodes", most_nodes)
    solver.setOptionValue("mip_rel_gap", 1e-6)
    solver.passModel(model)
    first = highspy.HighsSolution()
    first.col_value, first.value_valid = start.astype(np.float64), True
    solver.setSolution(first)
    solver.run()
    info = solver.getInfo()
    nodes, pivots = max(int(info.mip_node_count), 0), max(int(info.simplex_iteration_count), 0)
    effort.used += _COLUMN_UNITS * len(known) + _NODE_UNITS * nodes + pivot_units * pivots
    found = np.array(solver.getSolution().col_value, dtype=np.float64)
    return np.rint(found).astype(np.int64) if len(found) == len(known) else None


def _without_excess(problem: Problem, known: list[Pattern], copies: Counts) -> list[Pattern] | None:
    """These machines with each pod once; None if a pod is missing."""
    left = problem.counts.copy()
    found = []
    for pattern, number in zip(known, copies, strict=True):
        for _ in range(int(number)):
            counts = np.minimum(pattern.counts, left[pattern.classes])
            left[pattern.classes] -= counts
            held = counts > 0
            if held.any():
                found.append(Pattern(pattern.offer, pattern.classes[held], counts[held], 1))
    return None if left.any() else found
