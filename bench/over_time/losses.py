"""Where the dollars of a day go: what pods are worth, and by which cause machines cost more than that.

Run ``python -m bench.over_time.losses --share 0.1 --ways 'LowestCost, Global'``. Once a simulated minute each machine's
price is divided: the worth of its pods (their share of the cheapest machines that could be bought for them, by the
same prices as Global consolidation uses), and the rest by the state of the machine. Sums are in dollars of the day.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.over_time.day import (
    Way,
    arguments,
    chosen_days,
    chosen_ways,
    empty_cluster,
    rules_of,
)
from bench.over_time.days import HOUR, MINUTE, START, Day
from bench.report import Row, progress, show
from cli.decisions.replaying.cluster import Cluster
from cli.decisions.replaying.timeline import Timeline
from services.scheduler.disruption.passes import world_again
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.disruption.global_consolidation.picture import encode_cluster
from shared.disruption.records import Candidate
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.snapshot import Snapshot
from shared.simulation.decisions.records import PassQuestion

WORTH, BOOTING, LEAVING, REPLACED = "worth of pods", "booting", "ending", "waits for replacement"
EMPTY, RESTING, SETTLED = "empty", "room, too new to move", "room"


@dataclass
class Watched(Cluster):
    """A cluster that divides its cost, each simulated minute. ``question``: how a pass would see it."""

    question: PassQuestion = field(kw_only=True)
    spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Cause -> US dollars."""
    _next: float = START

    def pass_time(self, until: float) -> None:
        """Divides the cost of the state that lasted until now, at each full minute."""
        while self._next <= until:
            for cause, price in self._parts():
                self.spent[cause] += price / 1e6 * MINUTE / HOUR
            self._next += MINUTE
        super().pass_time(until)

    def _parts(self) -> Iterator[tuple[str, float]]:
        snapshot, seen = self.snapshot(), set()
        question = self.question
        world = world_again(snapshot, question)
        candidates = world.candidates
        if candidates:
            arrays = encode_cluster(world, candidates, snapshot)
            worth = arrays.load @ arrays.worth
            for candidate, price, value in zip(candidates, arrays.price, worth, strict=True):
                seen.add(candidate.machine.key)
                if candidate.node.unschedulable:
                    yield REPLACED, float(price)
                    continue
                yield WORTH, float(value)
                yield self._state(candidate), float(price - value)
        for key, machine in self.machines.items():
            if key not in seen:
                yield _without_node(machine), float(self._price(machine))

    def _state(self, candidate: Candidate) -> str:
        if candidate.empty:
            return EMPTY
        churn = self.question.churn
        return RESTING if churn.is_too_new(candidate, now=self.now) else SETTLED


def _without_node(machine: Machine) -> str:
    if machine.terminating:
        return LEAVING
    return SETTLED if machine.has(INITIALIZED) else BOOTING


def divided(day: Day, way: Way, empty: Snapshot) -> Watched:
    """The whole day."""
    rules = rules_of(way)
    cluster = Watched(empty, START, question=rules.passes[0])
    Timeline(cluster, rules, START + day.hours * HOUR).run(day.wishes)
    return cluster


def main() -> None:
    """Prints a row for each day and way."""
    chosen = arguments(__doc__).parse_args()
    empty = empty_cluster(bundled_catalogue())
    causes = (WORTH, SETTLED, RESTING, EMPTY, REPLACED, BOOTING, LEAVING)
    rows: list[Row] = []
    for day in progress(chosen_days(chosen), "days"):
        for way in chosen_ways(chosen):
            cluster = divided(day, way, empty)
            row: Row = {"day": day.name, "way": way.name, "$": round(cluster.totals.dollars, 2)}
            rows.append(row | {cause: round(cluster.spent[cause], 2) for cause in causes})
    show("Where the dollars go", rows)


if __name__ == "__main__":
    main()
