"""``python -m bench.comparison.karpenter.speed``: Karpenter's own benchmarks, and our planner on equal kinds of pods.

Karpenter's are the Go benchmarks of its repository. They time its Solve alone, on one thread here; ours is timed with
everything that a plan takes. Needs Go, and a network for the Go module proxy. Exit code 2: it cannot be run.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.comparison.karpenter.source import (
    SUITES,
    VERSION,
    Refused,
    built,
    cache_folder,
    prepared,
)
from bench.inputs import workloads
from bench.inputs.shapes import karpenter_preferences
from bench.report import Row, progress, save, show, timed
from shared.domain.workloads.pods import Pod
from shared.solver.solve import SolverSettings, solve

TAGS = "test_performance"
"""The build tag of Karpenter's benchmarks."""
RUNS = 3
MINUTES = 60
"""Most that the runs of one benchmark may take."""
_LINE = re.compile(r"^(Benchmark\w+)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op(.*)$", re.MULTILINE)
_NODES = re.compile(r"([\d.]+) nodes")


class Case(NamedTuple):
    """``benchmark``: of Karpenter; ``pods``: ours of the same kinds."""

    workload: str
    benchmark: str
    pods: Callable[[], list[Pod]]


class Measured(NamedTuple):
    """Seconds of one plan, the median of some, and its nodes."""

    seconds: float
    nodes: int


def _mix(size: int) -> Case:
    return Case("mix", f"BenchmarkScheduling{size}", partial(workloads.karpenter_mix, size))


CASES = (
    *(_mix(size) for size in (1000, 2000, 5000, 10_000)),
    Case("preferences", "BenchmarkRespectPreferences", karpenter_preferences),
)


def main() -> int:
    """Measures and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default=VERSION, help=f"of Karpenter's module ({VERSION})")
    parser.add_argument("--quick", action="store_true", help="1,000 pods, one run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    chosen = parser.parse_args()
    cases, runs = (CASES[:1], 1) if chosen.quick else (CASES, RUNS)
    try:
        copy = prepared(chosen.version, cache_folder())
        print("building Karpenter's benchmarks, some minutes the first time", file=sys.stderr)
        program = built(copy, "scheduling", TAGS)
        rows = list(measured(cases, program, copy / SUITES["scheduling"], runs))
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2
    show(f"Karpenter {chosen.version} and FewestNodes, 400 types, one thread", rows)
    save(chosen.json, {"speed": rows})
    return 0


def measured(cases: tuple[Case, ...], program: Path, folder: Path, runs: int) -> Iterable[Row]:
    """One row per case. Raises Refused when a benchmark of Karpenter fails."""
    for case in progress(cases, "Karpenter and Dovetail"):
        theirs = read(case.benchmark, _benchmarked(program, folder, case.benchmark, runs))
        pods = case.pods()
        yield row(case.workload, len(pods), theirs, _planned(pods, runs))


def row(workload: str, pods: int, theirs: Measured, ours: Measured) -> Row:
    """Milliseconds and nodes of both, and how many times ours is faster."""
    return {
        "workload": workload,
        "pods": pods,
        "Karpenter, ms": round(theirs.seconds * 1000, 1),
        "nodes": theirs.nodes,
        "Dovetail, ms": round(ours.seconds * 1000, 1),
        "its nodes": ours.nodes,
        "times": round(theirs.seconds / ours.seconds, 1),
    }


def read(benchmark: str, printed: str) -> Measured:
    """What Go's testing package printed of it. Raises Refused when that has no result."""
    found = [one for one in _LINE.finditer(printed) if one[1] == benchmark]
    nodes = [_NODES.search(one[3]) for one in found]
    if not found or None in nodes:
        raise Refused(f"{benchmark} has no result: {printed[-1000:]}")
    seconds = statistics.median(float(one[2]) / 1e9 for one in found)
    return Measured(seconds, max(int(float(one[1])) for one in nodes if one))


def _benchmarked(program: Path, folder: Path, benchmark: str, runs: int) -> str:
    """Each run is one plan by a new scheduler: a second plan by the same one would find the machines of the first."""
    command = [
        str(program),
        "-test.run=^$",
        f"-test.bench=^{benchmark}$",
        "-test.benchtime=1x",
        f"-test.count={runs}",
        "-test.cpu=1",
        f"-test.timeout={MINUTES}m",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"{benchmark}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def _planned(pods: list[Pod], runs: int) -> Measured:
    snapshot = workloads.snapshot(pods, workloads.karpenter_types())
    seconds, plan = timed(partial(solve, snapshot, now=0.0, settings=SolverSettings()), runs)
    return Measured(seconds.wall, len(plan.machines))


if __name__ == "__main__":
    sys.exit(main())
