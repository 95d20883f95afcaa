"""Reading what Karpenter's own benchmarks print, and the comparison with our planner."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bench.comparison.karpenter.source import Refused
from bench.comparison.karpenter.speed import CASES, Case, Measured, measured, read, row
from bench.inputs import workloads

PRINTED = """goos: linux
BenchmarkScheduling1000 	       1	4600000000 ns/op	       200 nodes	      1000 pods	       217.4 pods/sec
BenchmarkScheduling1000 	       1	4400000000 ns/op	       201 nodes	      1000 pods	       227.3 pods/sec
BenchmarkScheduling1000 	       1	5200000000 ns/op	       200 nodes	      1000 pods	       192.3 pods/sec
BenchmarkScheduling10000-2 	       1	88500000000 ns/op	       2000 nodes
PASS
"""


def test_several_runs_count_with_their_median() -> None:
    assert read("BenchmarkScheduling1000", PRINTED) == Measured(4.6, 201)


def test_go_may_add_the_number_of_cores_to_a_name() -> None:
    assert read("BenchmarkScheduling10000", PRINTED) == Measured(88.5, 2000)


@pytest.mark.parametrize("printed", ["", "PASS\n", "BenchmarkOther 1 5 ns/op 3 nodes\n"])
def test_a_benchmark_without_a_result_is_refused(printed: str) -> None:
    with pytest.raises(Refused, match="BenchmarkScheduling1000 has no result"):
        read("BenchmarkScheduling1000", printed)


def test_a_row_says_how_many_times_faster_ours_is() -> None:
    found = row("mix", 1000, Measured(4.6, 200), Measured(0.04, 200))
    assert (found["Karpenter, ms"], found["Dovetail, ms"], found["times"]) == (4600.0, 40.0, 115.0)


def test_each_case_has_as_many_pods_as_the_benchmark_that_it_stands_beside() -> None:
    for case in CASES:
        if case.workload == "mix":
            assert case.benchmark == f"BenchmarkScheduling{len(case.pods())}"


def program(folder: Path, text: str) -> Path:
    """One that prints as Go's tests do."""
    made = folder / "scheduling.test"
    made.write_text(f"#!/bin/sh\n{text}\n")
    made.chmod(made.stat().st_mode | stat.S_IXUSR)
    return made


def test_both_plan_the_same_kinds_of_pods(tmp_path: Path) -> None:
    line = "BenchmarkScheduling50 1 230000000 ns/op 10 nodes"
    case = Case("mix", "BenchmarkScheduling50", lambda: workloads.karpenter_mix(50))
    (found,) = measured((case,), program(tmp_path, f"echo '{line}'"), tmp_path, runs=1)
    assert (found["pods"], found["nodes"], found["its nodes"]) == (50, 10, 10)
    assert found["Karpenter, ms"] == 230.0


def test_a_benchmark_that_fails_is_named_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="BenchmarkScheduling1000: out of memory"):
        list(measured(CASES[:1], program(tmp_path, "echo out of memory; exit 1"), tmp_path, runs=1))
