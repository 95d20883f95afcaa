"""Planning time for a large backlog: many pools, every node full, and a third of the pods cannot be placed.

Run ``python -m bench.backlog``. It measures the seconds until every pending pod is placed or has a reason why it is
not. The sizes come from field reports in which planning took many minutes.
"""

from __future__ import annotations

from functools import partial

from bench.inputs import workloads
from bench.report import Row, options, peak_memory_mib, progress, save, show, timed
from shared.solver.solve import SolverSettings, solve

RUNS = 3
SIZES = ((217, 106, 20), (2170, 1060, 20))
"""(pending pods, full nodes, pools)."""


def measure(
    sizes: tuple[tuple[int, int, int], ...], *, types: int = 400, runs: int = RUNS
) -> list[Row]:
    """One row per size."""
    rows: list[Row] = []
    catalogue = workloads.karpenter_types(types)
    for pending, nodes, pools in progress(sizes, "backlog"):
        snapshot = workloads.backlog(catalogue, pending, nodes, pools)
        seconds, plan = timed(partial(solve, snapshot, now=0.0, settings=SolverSettings()), runs)
        placed = sum(len(m.pods) for m in plan.machines) + sum(map(len, plan.existing.values()))
        rows.append({
            "pending": pending,
            "nodes": nodes,
            "pools": pools,
            "cpu s": round(seconds.cpu, 3),
            "wall s": round(seconds.wall, 3),
            "with a place": placed,
            "with a reason": len(plan.unschedulable),
            "without a verdict": pending - placed - len(plan.unschedulable),
            "machines": len(plan.machines),
            "peak MiB": peak_memory_mib(),
        })  # fmt: skip
    return rows


def main() -> None:
    """Measures and prints one table."""
    chosen = options(__doc__)
    rows = measure(SIZES[:1] if chosen.quick else SIZES, runs=1 if chosen.quick else RUNS)
    show("Backlog: seconds until every pod has its verdict", rows)
    save(chosen.json, {"backlog": rows})


if __name__ == "__main__":
    main()
