"""Planning speed: Karpenter's benchmark mix, pods with preferences, and many pods of few deployments; and how the time
grows with the number of pods for several shapes of clusters.

Run ``python -m bench.scheduling`` from the repository. Karpenter's own code on the same inputs:
docs/development/benchmarks.md.
"""

from __future__ import annotations

from functools import partial

from bench.inputs import workloads
from bench.inputs.shapes import SHAPES, karpenter_preferences, preferences_in_turn
from bench.report import (
    Row,
    growth_exponent,
    options,
    peak_memory_mib,
    progress,
    save,
    show,
    timed,
)
from shared.domain.workloads.pods import Pod
from shared.solver.solve import SolverSettings, solve

SIZES = (1, 50, 100, 500, 1000, 2000, 5000, 10_000, 20_000)
QUICK_SIZES = (1, 100, 1000)
GROWTH_SIZES = (1000, 10_000, 100_000)
QUICK_GROWTH_SIZES = (200, 1000)
MOST_GROWTH = 1.1
"""The largest exponent of time by pods, between the smallest and the largest size."""
RUNS = 3


def cases(*, quick: bool) -> list[tuple[str, list[Pod]]]:
    """(name of the workload, pods); small ones come first because peak memory only grows."""
    sizes = QUICK_SIZES if quick else SIZES
    found = [("mix", workloads.karpenter_mix(size)) for size in sizes]
    wishes = 400 if quick else 4000
    found.append(("preferences", karpenter_preferences(wishes)))
    found.append(("preferences in turn", preferences_in_turn(wishes)))
    count = 2000 if quick else 100_000
    found.append(("200 deployments", workloads.equal_deployments(count)))
    return found


def measure(cases: list[tuple[str, list[Pod]]], *, types: int = 400, runs: int = RUNS) -> list[Row]:
    """One row per case."""
    rows: list[Row] = []
    catalogue = workloads.karpenter_types(types)
    before: tuple[str, int, float] = ("", 0, 0.0)
    for name, pods in progress(cases, "scheduling"):
        snapshot = workloads.snapshot(pods, catalogue)
        seconds, plan = timed(partial(solve, snapshot, now=0.0, settings=SolverSettings()), runs)
        rate = len(pods) / seconds.cpu
        same = before[0] == name
        rows.append({
            "workload": name,
            "pods": len(pods),
            "cpu ms": round(seconds.cpu * 1000, 1),
            "wall ms": round(seconds.wall * 1000, 1),
            "pods/s": round(rate),
            "growth": _growth(before, len(pods), seconds.cpu) if same else None,
            "peak MiB": peak_memory_mib(),
            "machines": len(plan.machines),
            "without a place": len(plan.unschedulable),
        })  # fmt: skip
        before = (name, len(pods), seconds.cpu)
    return rows


def _growth(before: tuple[str, int, float], size: int, seconds: float) -> float | None:
    found = growth_exponent((before[1], size), (before[2], seconds))
    return None if found is None else round(found, 2)


def measure_growth(sizes: tuple[int, ...], *, types: int = 400, runs: int = 1) -> list[Row]:
    """One row per shape: milliseconds of CPU at each size, and the exponent between the first and the last."""
    catalogue = workloads.karpenter_types(types)
    rows: list[Row] = []
    for name, shape in progress(list(SHAPES.items()), "growth"):
        seconds = [
            timed(partial(solve, shape(n, catalogue), now=0.0, settings=SolverSettings()), runs)[
                0
            ].cpu
            for n in sizes
        ]
        growth = growth_exponent((sizes[0], sizes[-1]), (seconds[0], seconds[-1])) or 0.0
        rows.append({
            "shape": name,
            **{f"{n:,} pods, cpu ms": round(s * 1000, 1) for n, s in zip(sizes, seconds, strict=True)},
            "exponent": round(growth, 2),
            f"at most {MOST_GROWTH}": "yes" if growth <= MOST_GROWTH else "NO",
        })  # fmt: skip
    return rows


def main() -> None:
    """Measures and prints two tables."""
    chosen = options(__doc__)
    rows = measure(cases(quick=chosen.quick), runs=1 if chosen.quick else RUNS)
    show("Scheduling, FewestNodes, 400 types", rows)
    growth = measure_growth(QUICK_GROWTH_SIZES if chosen.quick else GROWTH_SIZES)
    show("How the time grows with the pods", growth)
    save(chosen.json, {"scheduling": rows, "growth": growth})


if __name__ == "__main__":
    main()
