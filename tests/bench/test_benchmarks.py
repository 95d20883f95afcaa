"""The benchmarks run at small sizes: workloads match their descriptions, and tables have a row per case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from cProfile import Profile
from pathlib import Path

import pytest

from bench import backlog, cost, report, scheduling
from bench.inputs import shapes, workloads
from local.stack_plan import PROJECT
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.domain import labels as keys
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from tests.support.planning.plan_checker import check_plan
from tests.support.planning.snapshots import plan_for


def test_the_mix_has_five_equal_parts_and_is_the_same_every_time() -> None:
    pods = workloads.karpenter_mix(52)
    kinds = Counter(pod.name.split("-")[0] for pod in pods)
    assert kinds == {"generic": 12, "zone": 10, "host": 10, "together": 10, "apart": 10}
    assert pods == workloads.karpenter_mix(52)
    assert pods != workloads.karpenter_mix(52, seed=1)
    assert {p.requests["cpu"] for p in pods} <= set(workloads.CPU_MILLI)
    assert all(p.affinity[0].match_labels == p.labels for p in pods if p.affinity)


def test_a_burst_beside_agents_needs_four_machines_and_costs_29_percent_less() -> None:
    """At list prices: one machine of 128 vCPU for 4.896 $/h, or four for 3.468."""
    snapshot = workloads.burst_beside_agents(bundled_catalogue().types)
    fewest, plan = plan_for(snapshot), plan_for(snapshot, packing_policy="LowestCost")
    assert len(fewest.machines) == 1
    assert len(plan.machines) <= 4
    assert plan.cost_micro_usd_per_hour <= 0.71 * fewest.cost_micro_usd_per_hour


@pytest.mark.slow
def test_balanced_buys_no_hundred_nodes_for_three_hundred_types() -> None:
    """Small nodes have the most types to choose from, and are the cheapest until a node has a price of its own."""
    pool = workloads.pool(requirements=workloads.many_types_wanted())
    pods, types = workloads.replicas(300, "small", 500, 1024), bundled_catalogue().types
    snapshot = workloads.snapshot(pods, types, pools=(pool,))
    fewest, cheapest, plan = (
        plan_for(snapshot, packing_policy=policy)
        for policy in ("FewestNodes", "LowestCost", "Balanced")
    )
    assert len(cheapest.machines) == 100
    assert len(fewest.machines) <= len(plan.machines) <= 10
    assert plan.cost_micro_usd_per_hour <= 0.75 * fewest.cost_micro_usd_per_hour


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_a_realistic_mix_costs_at_most_3_percent_more_than_the_bound(seed: int) -> None:
    general = workloads.pool(requirements=workloads.general_requirements())
    pods, types = workloads.zipf(1000, seed=seed), bundled_catalogue().types
    snapshot = workloads.snapshot(pods, types, pools=(general,))
    plan = plan_for(snapshot, packing_policy="LowestCost", effort=1000)
    assert plan.unschedulable == {}
    assert plan.lower_bound_micro_usd_per_hour is not None
    assert plan.cost_micro_usd_per_hour <= 1.03 * plan.lower_bound_micro_usd_per_hour


def test_generated_types_grow_in_a_line() -> None:
    types = workloads.karpenter_types(3)
    assert [t.capacity["cpu"] for t in types] == [1000, 2000, 3000]
    assert types[2].capacity["memory"] == 6 * workloads.GIB
    assert types[2].capacity["pods"] == 30
    kinds = Counter(o.capacity_type for o in types[0].offerings)
    assert kinds == {keys.SPOT: 2, keys.ON_DEMAND: 3}


@pytest.mark.parametrize(
    ("found", "count"),
    [
        (shapes.preferences_in_turn(7), 7),
        (shapes.karpenter_preferences(7), 7),
        (shapes.deployments_with_rules(7), 35),
        (workloads.equal_deployments(103, 10), 103),
        (workloads.heterogeneous(), 2394),
        (workloads.zipf(500), 500),
        *((pods, int(name.split()[0])) for name, pods in workloads.bursts().items()),
    ],
)
def test_workloads_have_the_pods_they_promise(found: list[Pod], count: int) -> None:
    assert len(found) == count
    assert len({pod.uid for pod in found}) == count


def test_each_pod_with_preferences_gives_up_what_cannot_be_had() -> None:
    pods = shapes.preferences_in_turn(5)
    plan = plan_for(workloads.snapshot(pods, workloads.karpenter_types(20)))
    assert not plan.unschedulable
    assert {m.offering.zone for m in plan.machines} == {workloads.ZONES[0]}


def test_a_backlog_is_answered_for_every_pod_and_30_percent_cannot_be_placed() -> None:
    snapshot = workloads.backlog(workloads.karpenter_types(20), pending=100, nodes=10, pools=4)
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    assert len(plan.unschedulable) == 30
    assert plan.existing == {}


@pytest.mark.parametrize("seed", range(8))
def test_random_mixes_have_sound_plans(seed: int) -> None:
    snapshot = workloads.random_mix(seed, workloads.karpenter_types(12))
    check_plan(plan_for(snapshot), snapshot)


def test_tables_have_a_row_per_case() -> None:
    mix = workloads.karpenter_mix(5)
    rows = scheduling.measure([("mix", mix[:3]), ("mix", mix)], types=4, runs=1)
    assert [row["pods"] for row in rows] == [3, 5]
    assert rows[0]["growth"] is None
    assert isinstance(rows[1]["growth"], float)
    (row,) = backlog.measure(((20, 3, 2),), types=4, runs=1)
    assert (row["with a reason"], row["without a verdict"]) == (6, 0)


@pytest.mark.slow
def test_growth_has_a_row_per_shape() -> None:
    rows = scheduling.measure_growth((20, 40), types=4)
    assert [row["shape"] for row in rows] == list(shapes.SHAPES)
    assert all(isinstance(row["exponent"], float) for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", shapes.SHAPES)
def test_a_shape_is_planned_in_proportion_to_its_pods(name: str) -> None:
    """Counted in calls, which are the same on every machine and every time. Four times the pods, 4**1.1 the calls."""
    shape, types = shapes.SHAPES[name], workloads.karpenter_types(40)
    few, many = (calls_of_a_plan(shape(count, types)) for count in (400, 1600))
    assert many <= few * 4**scheduling.MOST_GROWTH


def calls_of_a_plan(snapshot: Snapshot) -> int:
    profile = Profile(builtins=False)
    profile.runcall(plan_for, snapshot)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
def test_costs_are_told_beside_the_bound_and_the_reference() -> None:
    types = workloads.karpenter_types(6)
    snapshot = workloads.snapshot(workloads.karpenter_mix(5), types)
    fewest, balanced, lowest = cost.measure([("mix", snapshot)], efforts=(20,))
    policies = (fewest["policy"], balanced["policy"], lowest["policy"])
    assert policies == ("FewestNodes", "Balanced", "LowestCost 20")
    assert fewest["x FewestNodes"] == 1
    (row,) = cost.compare_mixes(types, range(3), 20)
    assert (row["mixes"], row["dearer"], row["places fewer pods"]) == (3, 0, 0)


@pytest.mark.slow
def test_costs_are_told_beside_the_bound_that_each_plan_states() -> None:
    types = bundled_catalogue().types[::12]
    (row,) = cost.compare_with_bound(types, range(2), (20,))
    assert (row["effort"], row["workloads"]) == (20, 2)
    ratios = [row["x bound, median"], row["worst"]]
    assert [1, *ratios] == sorted([1, *ratios], key=lambda ratio: float(str(ratio)))


def test_results_are_shown_and_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[report.Row] = [{"name": "mix", "pods": 1200, "s": 0.25, "growth": None}]
    report.show("Speed", rows)
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("Speed", "mix", "1,200", "0.250", "-"))
    report.save(tmp_path / "rows.json", {"speed": rows})
    assert json.loads((tmp_path / "rows.json").read_text()) == {"speed": rows}
    report.save(None, {"speed": rows})


def test_growth_is_the_exponent_between_two_sizes() -> None:
    assert report.growth_exponent((10, 100), (1.0, 10.0)) == pytest.approx(1)
    assert report.growth_exponent((10, 100), (1.0, 100.0)) == pytest.approx(2)
    assert report.growth_exponent((10, 10), (1.0, 2.0)) is None


def test_each_run_counts_and_the_last_result_is_given() -> None:
    numbers = iter(range(3))
    seconds, last = report.timed(lambda: next(numbers), runs=3)
    assert last == 2
    assert seconds.cpu >= 0


# Command lines


def names() -> list[str]:
    """Of the modules that are programs."""
    files = sorted((PROJECT / "bench").rglob("*.py"))
    found = [path for path in files if '__name__ == "__main__"' in path.read_text()]
    parts = [path.relative_to(PROJECT).with_suffix("").parts for path in found]
    return [".".join(one).removesuffix(".__main__") for one in parts]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=PROJECT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_help_is_printed_and_nothing_is_measured(name: str) -> None:
    done = run(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")


def test_the_latency_of_no_stack_is_refused_in_words() -> None:
    done = run("bench.latency")
    assert done.returncode == 1
    assert done.stderr == (
        "KUBECONFIG, AWS_ENDPOINT_URL not set: run `make up`, then `source .dovetail/env`\n"
    )
