"""What a day costs when pods arrive in batches and leave again, by packing policy and way of consolidation.

Run ``python -m bench.over_time.day``. Days are seeded and begin with an empty cluster. They are simulated with the
scheduler's own rounds, passes and validations, by the engine of ``dovetail replay --from``: nodes are ready a minute
after their launch, consolidation runs all day within budgets of 10 %. The reference is FewestNodes with Karpenter's
methods, which has Karpenter's numbers of nodes on equal inputs. The bound is the proved lower bound for the pods that
are wanted, taken every five minutes: no policy can come below it by more than such samples are off. ``--seed`` gives
other days of the same kinds, for rules that were chosen by these.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from bench.inputs import workloads
from bench.over_time.days import HOUR, MINUTE, START, Day, days
from bench.report import Row, progress, save, show
from cli.decisions.replaying.cluster import Cluster, Totals
from cli.decisions.replaying.demand import Arrival, Removal, workload_of
from cli.decisions.replaying.period import facts
from cli.decisions.replaying.timeline import Rules, Timeline
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.disruption.global_consolidation.churn import Churn
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.types import Catalogue
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, Budget
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.simulation.decisions.records import PassQuestion, PlanQuestion
from shared.solver.solve import SolverSettings, solve

BOOT_SECONDS = 60.0
SAMPLE_SECONDS = 5 * MINUTE
QUICK_SHARE = 0.15


class Way(NamedTuple):
    """How a cluster is run."""

    policy: str
    consolidation: str
    churn: Churn = Churn()
    node_price_micro_usd: int | None = None
    effort: int = SolverSettings().effort

    @property
    def name(self) -> str:
        return f"{self.policy}, {self.consolidation}"


REFERENCE = Way("FewestNodes", "Karpenter")
WAYS = (
    REFERENCE,
    Way("LowestCost", "Karpenter"),
    Way("Balanced", "Karpenter"),
    Way("LowestCost", "Global"),
    Way("Balanced", "Global"),
)


def empty_cluster(aws: Catalogue) -> Snapshot:
    """One general pool on demand, with a budget of 10 %; no nodes."""
    pool = workloads.pool(
        requirements=workloads.general_requirements(),
        consolidation_policy=WHEN_UNDERUTILIZED,
        consolidate_after_seconds=0.0,
        budgets=(Budget("10%"),),
    )
    return replace(workloads.snapshot([], aws.types, pools=(pool,)), catalogue=aws)


def rules_of(way: Way) -> Rules:
    """What decides in the cluster."""
    settings = SolverSettings(
        packing_policy=way.policy, node_price_micro_usd=way.node_price_micro_usd, effort=way.effort
    )
    passes = PassQuestion(START, V1, settings, FeatureGates(), way.consolidation, way.churn)
    return Rules(PlanQuestion(START, settings), (passes,), BOOT_SECONDS)


def run(day: Day, way: Way, empty: Snapshot) -> Totals:
    """The whole day."""
    timeline = Timeline(Cluster(empty, START), rules_of(way), START + day.hours * HOUR)
    return timeline.run(day.wishes)


def bound(day: Day, empty: Snapshot) -> float:
    """In US dollars: the lower bound of the pods that are wanted at each sample, until the next one."""
    settings = SolverSettings(packing_policy="LowestCost", effort=50)
    total, before, price = 0.0, None, 0
    for pods in _samples(day):
        if pods != before:
            plan = solve(replace(empty, pods=tuple(pods)), now=START, settings=settings)
            before, price = pods, plan.lower_bound_micro_usd_per_hour or 0
        total += price / 1e6 * SAMPLE_SECONDS / HOUR
    return total


def _samples(day: Day) -> Iterator[list[Pod]]:
    """The pods that are wanted in the middle of each interval."""
    alive: dict[str, list[Pod]] = defaultdict(list)
    at = 0
    for number in range(round(day.hours * HOUR / SAMPLE_SECONDS)):
        until = START + (number + 0.5) * SAMPLE_SECONDS
        while at < len(day.wishes) and day.wishes[at].at <= until:
            wish = day.wishes[at]
            at += 1
            if isinstance(wish, Arrival):
                alive[workload_of(wish.pod)].append(wish.pod)
            elif isinstance(wish, Removal) and alive[wish.workload]:
                alive[wish.workload].pop()
        yield sorted((pod for pods in alive.values() for pod in pods), key=lambda pod: pod.uid)


def measure(chosen: Sequence[Day], ways: Iterable[Way], empty: Snapshot) -> Iterator[Row]:
    """A row for each day and way, the reference first."""
    for day in progress(chosen, "days"):
        least = bound(day, empty)
        reference: Totals | None = None
        for way in ways:
            begun = time.process_time()
            totals = run(day, way, empty)
            reference = reference or totals
            yield _row(day, way, totals, reference, least) | {
                "cpu s": round(time.process_time() - begun, 1)
            }


def _row(day: Day, way: Way, totals: Totals, reference: Totals, least: float) -> Row:
    found = facts(totals)
    return {
        "day": day.name,
        "hours": day.hours,
        "pods": day.arrivals,
        "way": way.name,
        "$": round(totals.dollars, 2),
        "$ / reference": round(totals.dollars / reference.dollars, 3),
        "bound / reference": round(least / reference.dollars, 3),
        "node-hours": found["node-hours"],
        "most nodes": totals.most_machines,
        "evictions": totals.evictions,
        "launches": totals.launches,
        "waiting p50, s": found["waiting p50, s"],
        "waiting p99, s": found["waiting p99, s"],
    }


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What chooses days and ways."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--share", type=float, default=1.0, help="of pods and hours (1)")
    parser.add_argument("--seed", default="", help="other days of the same kinds")
    parser.add_argument("--days", default="", help="names, separated by commas (all)")
    parser.add_argument(
        "--ways", default="", help="such as 'FewestNodes, Karpenter; Balanced, Global'"
    )
    usual = Churn()
    parser.add_argument(
        "--rest", type=float, default=usual.rest_seconds, help="CONSOLIDATION_REST, in seconds"
    )
    parser.add_argument("--node-price", type=float, help="NODE_PRICE, in US dollars per hour")
    usual_effort = SolverSettings().effort
    parser.add_argument(
        "--effort", type=int, default=usual_effort, help=f"PACKING_EFFORT ({usual_effort})"
    )
    return parser


def chosen_days(chosen: argparse.Namespace) -> list[Day]:
    """Those that were asked for."""
    wanted = {name.strip() for name in chosen.days.split(",") if name.strip()}
    return [day for day in days(chosen.share, chosen.seed) if not wanted or day.name in wanted]


def chosen_ways(chosen: argparse.Namespace) -> list[Way]:
    """Those that were asked for, with the given rest, price per node and effort."""
    wanted = {name.strip() for name in chosen.ways.split(";") if name.strip()}
    price = None if chosen.node_price is None else round(chosen.node_price * 1e6)
    return [
        way._replace(
            churn=Churn(rest_seconds=chosen.rest),
            node_price_micro_usd=price,
            effort=chosen.effort,
        )
        for way in WAYS
        if not wanted or way.name in wanted
    ]


def main() -> None:
    """Prints and saves each day as soon as it is measured."""
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help=f"the same as --share {QUICK_SHARE}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.share = QUICK_SHARE
    rows: list[Row] = []
    for row in measure(
        chosen_days(chosen), chosen_ways(chosen), empty_cluster(bundled_catalogue())
    ):
        rows.append(row)
        save(chosen.json, {"days": rows})
    show("Days", rows)


if __name__ == "__main__":
    main()
