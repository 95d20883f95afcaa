"""The configuration bound: the least that whole machines with whole pods in them cost, machines being divisible.

A linear program over contents of machines gives prices of pods. No content may be worth more than its machine costs;
contents that are worth more are found and added, and the program is solved again. At any time the prices, scaled down
by what the most valuable content of each offering exceeds its price, prove a bound (Farley's): so the search may stop
after any amount of work.

Prices of pods are whole thousandths of a micro-USD. How much a content can be worth comes from prices of room and from
``Tables``. Prices of room are sums of at most some thousand terms that are all at least zero, whose relative rounding
error is below 1e-12; ``_ROUNDING`` is far above that. They look at whole pods only (``with_whole_pods``): where two
pods of 5 CPUs do not share a machine of 9, prices of CPUs alone let nine tenths of the second one in. Tables add whole
numbers, and round sizes of pods down. What both leave open is searched at last (``diagram``).

Where none rules out a content that no machine can have, such as one of rounded sizes, the program gets it too. Its
prices then need hardly be scaled down: an offering about which little is known lowers the bound by what it could do for
the whole mix, and not by what its best content exceeds its price.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shared.solver.encode import Indices, Mask
from shared.solver.lowest_cost.bound.dual import Worth
from shared.solver.lowest_cost.contents.columns import Limit, Master
from shared.solver.lowest_cost.contents.diagram import Diagram, RoomPrices
from shared.solver.lowest_cost.contents.room_prices import ContentProgram, most_of_classes, proved
from shared.solver.lowest_cost.contents.tables import Tables
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem, dense

_SCALE = 1000.0
"""Prices of pods are whole numbers of this part of a micro-USD."""
_ROUNDING = 1e-9
_ENOUGH, _TOLERANCE = 1.0002, 1e-6
_FIRST_WEIGHT, _LEAST_WEIGHT = 0.7, 0.05
"""Weight of the best prices so far beside those of the linear program, which jump: at first, and until it is 0."""
_MARGIN = 1.0002
"""Contents that are worth at most this multiple of the price of their machine are not searched for."""
MOST_PAIRS = 40_000
"""With more pairs of a class and an offering that fits it no search is begun: one round would take seconds."""
_WIDTH_OF_NEIGHBOURS = 3000
_SEARCHED_AT_ONCE, _WIDTH_OF_SEARCH, _CONTENTS_OF_SEARCH = 12, 6000, 2
"""Offerings that are searched in a round, the most states of a search, and contents that it gives."""
_PRICED_AT_ONCE, _ENOUGH_ADDED = 32, 12
"""Offerings whose room is priced together, and contents after which no more of them are priced in a round."""
_ENOUGH_OF_TABLES = 4
_CELL_UNITS = 1e-6
"""Units per offering, class and resource of a look at prices of room."""
_MAX_ROUNDS = 500
_NEIGHBOURS_PER_OFFER = 400


class _Means(NamedTuple):
    """How contents are looked for."""

    table_units: float
    """The most units of a table."""
    searches: bool
    """Are the contents of an offering searched one by one where tables leave open what they can be worth?"""


_STAGES = (
    _Means(15.0, searches=False),
    _Means(150.0, searches=False),
    _Means(150.0, searches=True),
)
"""Each begins once the one before finds no more. Searches say the most of small machines: sizes of pods that suit no
grid need tables that are too large, but few of these pods fit."""


class _Worth(NamedTuple):
    """Prices of the linear program."""

    pods: Floats
    price: Floats
    """[offers]: of the machine."""


class _Known(NamedTuple):
    """What is known at some prices of pods."""

    prices: Floats
    price: Floats
    """[offers]: of the machine."""
    worth: _Worth
    room: RoomPrices
    target: Floats
    """[offers]: worth below which nothing needs to be known."""
    most: Floats
    """[offers]: no content is worth more."""

    contents: Floats
    """[offers, classes]: that is worth ``most``, of whole pods or not."""

    @property
    def open(self) -> Indices:
        """The offerings that may have a content above the target."""
        return np.flatnonzero(self.most > self.target)


class _Rooms:
    """The last prices of room of each offering. Any of them prove something at other prices of pods."""

    def __init__(self, problem: Problem, offers: Indices) -> None:
        self._problem, self._offers = problem, offers
        self._program = ContentProgram(problem)
        self._room: Floats = np.zeros((len(offers), problem.requests.shape[1]))
        self._slots: Floats = np.zeros((len(offers), len(problem.slots)))

    def proved(self, prices: Floats) -> RoomPrices:
        """What they prove at these prices of pods."""
        return proved(self._problem, prices, self._offers, self._room, self._slots)

    def price(
        self, known: RoomPrices, rows: Indices, prices: Floats, effort: Effort
    ) -> tuple[Counts, Floats]:
        """Finds the best prices of room of some offerings, notes them in ``known``, and returns a content of each, in
        whole pods and in fractions."""
        found = self._program.room_prices(prices, self._offers[rows], effort)
        self._room[rows], self._slots[rows] = found.room, found.slots
        for name in ("room", "slots", "surplus", "ceiling"):
            getattr(known, name)[rows] = getattr(found, name)
        return self._program.whole(found, self._offers[rows]), self._program.fractional


class Configuration:
    """One bound, improved as long as effort is left. ``known``: contents to start with; ``prices``: proved prices of
    pods, in micro-USD."""

    def __init__(self, problem: Problem, prices: Floats, known: Sequence[Pattern]) -> None:
        fitting = problem.fits.any(axis=1)
        self.problem = replace(problem, counts=np.where(fitting, problem.counts, 0))
        self._amounts = problem.requests.shape[1]
        self._sharp = with_whole_pods(self.problem)
        self._offers: Indices = np.flatnonzero(problem.fits.any(axis=0))
        self._price = problem.price[self._offers] * _SCALE
        self.master = Master(self.problem)
        for pattern in (*known, *_of_one_class(self.problem)):
            self.master.add(pattern.offer, dense(problem, pattern))
        self._rooms = _Rooms(self._sharp, self._offers)
        self._tables = Tables(self.problem, self._offers, most_of_classes(self.problem))
        self._limits: list[Limit] = []
        self._demand = self.problem.counts.astype(np.float64)
        self.prices: Floats = np.floor(np.where(fitting, prices, 0.0) * _SCALE)
        """[classes + limits]: what is proved."""
        self.bound = float(self._demand @ self.prices)
        """In thousandths of a micro-USD per hour."""

    @property
    def micro_usd_per_hour(self) -> int:
        """The bound, rounded down."""
        return int(self.bound // _SCALE)

    def market(self) -> Worth:
        """The proved prices, and what they say of each offering."""
        efficiency = np.full(len(self.problem.price), -1.0)
        ceiling = self._rooms.proved(self.prices).ceiling
        efficiency[self._offers] = ceiling / np.maximum(self._price, 1.0)
        return Worth(self.prices / _SCALE, efficiency, self.bound / _SCALE)

    def limited(self, limit: Limit) -> Configuration:
        """The same search among the plans that keep this limit too, with the contents that are known."""
        found = copy(self)
        found._limits = [*self._limits, limit]
        found._demand = np.append(self._demand, limit.number)
        found.prices = np.append(self.prices, 0.0)
        found.master = Master(self.problem, found._limits)
        for offer, content in self.master.in_use():
            found.master.add_relaxed(offer, content)
        nothing = np.zeros(len(self.problem.counts))
        for offer in np.flatnonzero(limit.offers).tolist():
            found.master.add_relaxed(offer, nothing)
        return found

    def improve(self, effort: Effort) -> bool:
        """Raises the bound until it is nearly that of the linear program or the effort is used up. Says whether it is
        nearly that."""
        weight, stages = _FIRST_WEIGHT, list(_STAGES)
        solved = self.master.solve(effort)
        for _ in range(_MAX_ROUNDS):
            if solved is None or not effort.is_left:
                return False
            worth = np.floor(solved[0] * _SCALE)
            is_near = float(self._demand @ worth) <= self.bound * _ENOUGH
            if is_near or weight < 0:
                if self._limits or len(stages) == 1:
                    return True
                stages.pop(0)
                weight = _FIRST_WEIGHT
                self.master.forget_relaxed()
                solved = self.master.solve(effort)
                continue
            guide = np.floor(weight * self.prices + (1 - weight) * worth)
            if self._round(guide, worth, stages[0], effort):
                solved = self.master.solve(effort)
            elif weight > 0:
                weight = weight / 2 if weight > _LEAST_WEIGHT else 0.0
            else:
                weight = -1.0
        return False

    def _prices_of(self, prices: Floats) -> tuple[Floats, Floats]:
        """([classes]: prices of pods; [offers]: of machines, less what the prices of limits give for them)."""
        price = self._price.copy()
        for limit, each in zip(self._limits, prices[len(self.problem.counts) :], strict=True):
            price -= each * limit.offers[self._offers]
        return prices[: len(self.problem.counts)], np.maximum(price, 0.0)

    def add_neighbours(self, cost: float, effort: Effort) -> None:
        """Adds contents that a plan cheaper than ``cost`` (micro-USD per hour) may have: no content of such a plan is
        worth less than its machine costs by more than that plan is dearer than the bound."""
        proof = self._rooms.proved(self.prices)
        rows = np.flatnonzero(proof.ceiling > self._price * _MARGIN)
        self._rooms.price(proof, rows, self.prices, effort)
        target = np.maximum(self._price - (cost * _SCALE - self.bound), 0.0)
        open_to = np.flatnonzero(proof.ceiling > target)
        diagram = self._diagram(self.prices, proof, target, open_to, _WIDTH_OF_NEIGHBOURS)
        _, rows, contents = diagram.run(effort, _NEIGHBOURS_PER_OFFER)
        anything = _Worth(np.full(len(self.prices), np.inf), self._price)
        self._add(open_to[rows], contents, anything)

    def _round(self, guide: Floats, worth: Floats, means: _Means, effort: Effort) -> int:
        """Proves what it can at the prices ``guide`` and adds contents. Returns how many."""
        pods, price = self._prices_of(guide)
        room = self._rooms.proved(pods)
        effort.used += room.surplus.size * self._sharp.requests.shape[1] * _CELL_UNITS
        nothing = np.zeros_like(room.surplus)
        found = _Worth(*self._prices_of(worth))
        target = price * _MARGIN
        known = _Known(pods, price, found, room, target, room.ceiling.copy(), nothing)
        added = self._priced(known, effort)
        if not added:
            added = self._valued(known, means.table_units, effort)
        if not added and means.searches:
            added = self._searched(known, effort)
        if not added:
            added = self._relaxed(known)
        self._prove(guide, known)
        return added

    def _priced(self, known: _Known, effort: Effort) -> int:
        """Prices the room of offerings that may have a content above the target, those of the largest excess first,
        until contents are found. Returns how many."""
        added = 0
        rows = self._by_excess(known)
        for start in range(0, len(rows), _PRICED_AT_ONCE):
            if added >= _ENOUGH_ADDED or not effort.is_left:
                break
            some = rows[start : start + _PRICED_AT_ONCE]
            contents, fractional = self._rooms.price(known.room, some, known.prices, effort)
            known.most[some] = np.minimum(known.most[some], known.room.ceiling[some])
            known.contents[some] = fractional
            added += self._add(some, contents, known.worth)
        return added

    def _valued(self, known: _Known, units: float, effort: Effort) -> int:
        """Makes tables for the offerings that may have a content above the target, and adds contents. Returns how
        many."""
        added, rows = 0, known.open
        wanted = known.room.surplus[rows] >= (known.target - known.room.ceiling)[rows, None]
        for found in self._tables.values(known.prices, rows, wanted, units, effort):
            at = found.rows
            most = np.maximum(found.most, known.target[at])
            lower = most < known.most[at]
            known.contents[at[lower]] = found.contents[lower]
            known.most[at[lower]] = most[lower]
            added += self._add(at, found.contents, known.worth)
            if added >= _ENOUGH_OF_TABLES:
                break
        return added

    def _searched(self, known: _Known, effort: Effort) -> int:
        """Searches the contents of the offerings that may still have one above the target, and adds contents. Returns
        how many."""
        added = 0
        for row in self._by_excess(known)[:_SEARCHED_AT_ONCE]:
            if not effort.is_left or added >= _ENOUGH_OF_TABLES:
                break
            some = np.array([row])
            diagram = self._diagram(known.prices, known.room, known.target, some, _WIDTH_OF_SEARCH)
            most, _, contents = diagram.run(effort, _CONTENTS_OF_SEARCH)
            known.most[row] = min(known.most[row], most[0])
            added += self._add(np.repeat(some, len(contents)), contents, known.worth)
        return added

    def _relaxed(self, known: _Known) -> int:
        """Adds the contents that are worth more than they cost and are not ruled out. Returns how many."""
        rows = known.open
        worth = known.contents[rows] @ known.worth.pods
        gain = worth > known.worth.price[rows] * (1 + _TOLERANCE) + _TOLERANCE
        return sum(
            self.master.add_relaxed(int(self._offers[row]), known.contents[row])
            for row in rows[gain]
        )

    def _by_excess(self, known: _Known) -> Indices:
        """The open offerings, those of the largest excess first."""
        excess = known.most / np.maximum(known.price, 1.0)
        return known.open[np.argsort(-excess[known.open], kind="stable")]

    def _diagram(
        self, prices: Floats, room: RoomPrices, target: Floats, rows: Indices, width: int
    ) -> Diagram:
        """A search over some offerings, without columns that have no price there."""
        room = room.only(rows)
        priced: Mask = np.asarray((room.room > 0).any(axis=0), dtype=np.bool_)
        priced[: self._amounts] = True
        problem = replace(
            self._sharp,
            requests=self._sharp.requests[:, priced],
            capacity=self._sharp.capacity[:, priced],
        )
        room = replace(room, room=room.room[:, priced])
        offers = self._offers[rows]
        return Diagram(problem, offers, prices, room, target[rows], width, self._amounts)

    def _prove(self, prices: Floats, known: _Known) -> None:
        """Scales the prices so that no content is worth more than its machine costs, and keeps them if they are better.

        A class is scaled by the worst offering that it fits: a content of an offering then shrinks at least as much as
        that offering needs.
        """
        for limit, each in zip(self._limits, prices[len(known.prices) :], strict=True):
            # A limit may not give more for a machine than all machines cost.
            if each > 0 and (known.price[limit.offers[self._offers]] <= 0).any():
                return
        share = np.minimum(1.0, known.price / np.maximum(known.most, 1.0))
        fits = self.problem.fits[:, self._offers]
        scale = np.where(fits, share, np.inf).min(axis=1, initial=np.inf)
        scaled = known.prices * np.where(np.isfinite(scale), scale, 0.0) * (1 - _ROUNDING)
        found = np.append(np.floor(scaled), prices[len(scaled) :])
        bound = float(self._demand @ found)
        if bound > self.bound:
            self.prices, self.bound = found, bound

    def _add(self, rows: Indices, contents: Counts, worth: _Worth) -> int:
        """Adds the contents that fit and are worth more than they cost. Returns how many."""
        problem, offers = self.problem, self._offers[rows]
        gain = (contents * np.where(contents > 0, worth.pods, 0.0)).sum(axis=1)
        good = gain > worth.price[rows] * (1 + _TOLERANCE) + _TOLERANCE
        good &= (contents @ problem.requests <= problem.capacity[offers]).all(axis=1)
        good &= ~((contents > 0) & ~problem.fits[:, offers].T).any(axis=1)
        good &= (contents <= problem.counts).all(axis=1)
        for group, slots in enumerate(problem.slots):
            good &= contents[:, problem.groups == group].sum(axis=1) <= slots
        return sum(self.master.add(int(offers[row]), contents[row]) for row in np.flatnonzero(good))


def with_whole_pods(problem: Problem) -> Problem:
    """The problem with a column for each size of pods: how often the size is in a request and in a machine, rounded
    down. No content of whole pods breaks these limits, but fractional ones do."""
    requests, capacity = [problem.requests], [problem.capacity]
    known: set[bytes] = set()
    for column in range(problem.requests.shape[1]):
        asked, given = problem.requests[:, column], problem.capacity[:, column]
        for size in np.unique(asked[(problem.counts > 0) & (asked > 0)]):
            pods, most = asked // size, given // size
            if (identity := pods.tobytes() + most.tobytes()) not in known:
                known.add(identity)
                requests.append(pods[:, None])
                capacity.append(most[:, None])
    return replace(
        problem,
        requests=np.concatenate(requests, axis=1),
        capacity=np.concatenate(capacity, axis=1),
    )


def _of_one_class(problem: Problem) -> list[Pattern]:
    """Each class alone on the offering that is cheapest per pod, so that the program has a solution."""
    found = []
    for row in np.flatnonzero(problem.counts > 0):
        size = problem.requests[row]
        most = np.where(size > 0, problem.capacity / np.where(size > 0, size, 1.0), np.inf)
        pods = np.minimum(np.floor(most.min(axis=1)), problem.counts[row])
        if problem.groups[row] >= 0:
            pods = np.minimum(pods, problem.slots[problem.groups[row]])
        usable = problem.fits[row] & (pods > 0)
        each = np.where(usable, problem.price / np.maximum(pods, 1.0), np.inf)
        offer = int(each.argmin())
        counts = np.array([int(pods[offer])], dtype=np.int64)
        found.append(Pattern(offer, np.array([row], dtype=np.intp), counts, 1))
    return found
