"""The launching benchmark counts calls within a span, calls per minute, and the steps of machines and pods."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bench.launching import GROUPS, RUNNING, Observed, apart, most_a_minute, most_within, pinned
from shared.domain.machines.machine import INITIALIZED, LAUNCHED


def call(token: str, at: float) -> dict[str, Any]:
    return {"at": at, "parameters": {"ClientToken": token}}


def test_the_most_calls_within_a_second() -> None:
    assert most_within([], 1.0) == 0
    assert most_within([5.0, 0.0, 0.4, 0.9, 1.0], 1.0) == 3


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 20))
def test_a_span_holds_as_many_as_the_best_place_for_it(times: list[int], seconds: int) -> None:
    best = max((sum(s <= at < s + seconds for at in times) for s in range(-1, 52)), default=0)
    assert most_within([float(at) for at in times], float(seconds)) == best


def test_calls_a_minute_are_counted_by_client_token() -> None:
    """Another attempt has another client token (F18)."""
    calls = [call("a", 0.0), call("b", 1.0), call("a", 30.0), call("a", 70.0)]
    assert most_a_minute(calls) == 2


def test_a_machine_and_a_pod_are_told_apart() -> None:
    """Pods have a condition Initialized too, which does not count as a machine's step."""
    seen = Observed()
    true = {"type": "Initialized", "status": "True"}
    seen.note({"metadata": {"name": "pod"}, "status": {"phase": "Running", "conditions": [true]}})
    launched = {"type": "MachineLaunched", "status": "True"}
    pending = {"type": "MachineInitialized", "status": "Unknown"}
    seen.note({"metadata": {"name": "m"}, "status": {"conditions": [launched, pending]}})
    assert (seen.count(RUNNING), seen.count(LAUNCHED), seen.count(INITIALIZED)) == (1, 1, 0)


def test_workloads_ask_for_as_many_pods_as_they_say() -> None:
    assert apart(7)["spec"]["replicas"] == 7
    deployments = pinned(2000, GROUPS)
    assert sum(one["spec"]["replicas"] for one in deployments) == 2000
    assert len({one["metadata"]["name"] for one in deployments}) == len(GROUPS) == 40
