"""Planning speed: Karpenter's benchmark mix, pods with preferences, and many pods of few deployments.

Run ``python -m bench.scheduling`` from the repository. The reference is Karpenter's own benchmark of the same mix, in
Go: about 1,300 pods per second on a fast laptop core (see docs/development/benchmarks.md), with a minimum of 100.
"""

from __future__ import annotations

from functools import partial

from bench.inputs import workloads
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

KARPENTER_PODS_PER_SECOND = 1300
SIZES = (1, 50, 100, 500, 1000, 2000, 5000, 10_000, 20_000)
QUICK_SIZES = (1, 100, 1000)
RUNS = 3


def cases(*, quick: bool) -> list[tuple[str, list[Pod]]]:
    """(name of the workload, pods); small ones come first because peak memory only grows."""
    sizes = QUICK_SIZES if quick else SIZES
    found = [("mix", workloads.karpenter_mix(size)) for size in sizes]
    found.append(("preferences", workloads.karpenter_preferences(400 if quick else 4000)))
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
            "x Karpenter": round(rate / KARPENTER_PODS_PER_SECOND, 2),
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


def main() -> None:
    """Measures and prints one table."""
    chosen = options(__doc__)
    rows = measure(cases(quick=chosen.quick), runs=1 if chosen.quick else RUNS)
    title = f"Scheduling, FewestNodes, 400 types (reference: {KARPENTER_PODS_PER_SECOND} pods/s)"
    show(title, rows)
    save(chosen.json, {"scheduling": rows})


if __name__ == "__main__":
    main()
