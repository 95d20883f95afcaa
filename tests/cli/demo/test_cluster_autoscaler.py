"""The comparison line: what a group of 4-vCPU nodes does with the article's workloads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.demo.cluster_autoscaler import (
    CPU_MILLI,
    DAEMON_CPU_MILLI,
    DAEMON_PODS,
    GROUP_LIMIT,
    PODS,
    Estimate,
    describe,
    estimate,
)

MIB, GIB = 2**20, 2**30


def test_400_pods_of_a_quarter_cpu_need_27_nodes_of_15_pods() -> None:
    """ACC-06, the story of ACC-02."""
    assert estimate(400, 250, 256 * MIB) == Estimate(nodes=27, pods_per_node=15, pending=0)


def test_100_pods_of_one_cpu_need_34_nodes_of_3_pods() -> None:
    """ACC-06, the story of ACC-04."""
    assert estimate(100, 1_000, GIB) == Estimate(nodes=34, pods_per_node=3, pending=0)


def test_10_pods_of_ten_cpus_never_run() -> None:
    """ACC-06, the story of ACC-05."""
    result = estimate(10, 10_000, 10 * GIB)
    assert result == Estimate(nodes=0, pods_per_node=0, pending=10)
    assert "never run" in describe(result)


@pytest.mark.parametrize("cpu_milli", [0, 100, 125, 150, 170])
def test_the_article_s_counts_hold_for_any_daemon_overhead_up_to_170m(cpu_milli: int) -> None:
    assert estimate(400, 250, 256 * MIB, cpu_milli).nodes == 27
    assert estimate(100, 1_000, GIB, cpu_milli).nodes == 34


def test_a_group_stops_at_its_largest_size_and_says_how_many_pods_stay_behind() -> None:
    result = estimate(2_000, 250, 256 * MIB)
    assert result == Estimate(nodes=100, pods_per_node=15, pending=500)
    assert "500 pods never run" in describe(result)


def test_memory_and_pod_slots_limit_a_node_as_cpu_does() -> None:
    assert estimate(10, 0, 5 * GIB).pods_per_node == 2
    assert estimate(200, 1, 1).pods_per_node == PODS - DAEMON_PODS


@pytest.mark.parametrize(("pods", "cpu", "memory"), [(-1, 1, 1), (1, -1, 1), (1, 0, 0)])
def test_nonsense_is_refused(pods: int, cpu: int, memory: int) -> None:
    with pytest.raises(ValueError, match="must request"):
        estimate(pods, cpu, memory)


@given(st.integers(0, 5_000), st.integers(1, 8_000), st.integers(0, 32 * GIB))
def test_every_pod_is_placed_or_pending_and_no_node_is_wasted(
    pods: int, cpu: int, memory: int
) -> None:
    result = estimate(pods, cpu, memory)
    assert 0 <= result.nodes <= GROUP_LIMIT
    assert pods - result.pending <= result.nodes * result.pods_per_node
    if result.nodes:
        assert (result.nodes - 1) * result.pods_per_node < pods
        assert result.pods_per_node * cpu <= CPU_MILLI - DAEMON_CPU_MILLI
