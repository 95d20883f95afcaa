"""Equal snapshots give the same plan, byte for byte, in every process and for any order of their parts."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.snapshot import Snapshot
from tests.support.planning.builders import (
    ZONES,
    make_bound_pod,
    make_catalogue,
    make_daemon_set,
    make_machine,
    make_node,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_spread,
    make_term,
    make_types,
)
from tests.support.planning.snapshots import plan_for

ROOT = Path(__file__).parents[4]
POLICIES = ("FewestNodes", "LowestCost")
UNORDERED = ("pods", "nodes", "machines", "pools", "node_classes", "daemon_sets")
"""Fields of a snapshot whose order does not matter."""
PROGRAM = """
import sys
from tests.shared.solver.properties.test_determinism import encoded, mixed_snapshot
for policy in sys.argv[1:]:
    sys.stdout.buffer.write(encoded(mixed_snapshot(), policy) + b"\\n")
"""


def mixed_snapshot() -> Snapshot:
    """Every kind of rule, with ties in all of them."""
    web: dict[str, Any] = {"labels": {"app": "web"}}
    pods = [
        *make_pods(40, "a", cpu="700m", **web, spread=(make_spread(keys.ZONE),)),
        *make_pods(40, "b", cpu="700m"),
        *make_pods(5, "c", labels={"app": "db"}, anti_affinity=(make_term(keys.ZONE, "db"),)),
        *make_pods(5, "d", labels={"app": "x"}, affinity=(make_term(keys.ZONE, "x"),)),
        *make_pods(3, "f", host_ports=(("TCP", "", 80),)),
        make_pod("e", node_selector={"unknown": "label"}),
        *(make_bound_pod(f"busy-{i}", f"node-{i}", cpu="1", **web) for i in range(3)),
    ]
    return make_snapshot(
        *pods,
        pools=(make_pool("a", limits={"cpu": 64_000}), make_pool("b", labels={"x": "y"})),
        nodes=tuple(make_node(f"node-{i}", labels={keys.ZONE: ZONES[i]}) for i in range(3)),
        machines=(make_machine("a-1", "a"), make_machine("a-2", "a")),
        daemon_sets=(make_daemon_set("logs"), make_daemon_set("metrics")),
    )


def encoded(snapshot: Snapshot, policy: str) -> bytes:
    """The encoded plan."""
    return msgspec.json.encode(plan_for(snapshot, packing_policy=policy))


def _plans_in_a_process(hash_seed: str) -> list[bytes]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *POLICIES],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return found.stdout.splitlines()


@pytest.mark.slow
def test_two_processes_with_different_hash_seeds_agree() -> None:
    first, second = _plans_in_a_process("1"), _plans_in_a_process("4242")
    assert min(map(len, first)) > 1000
    assert first == second == [mixed_plan(policy) for policy in POLICIES]


@cache
def mixed_plan(policy: str) -> bytes:
    """The encoded plan of ``mixed_snapshot``."""
    return encoded(mixed_snapshot(), policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=6, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_a_snapshots_parts_means_nothing(policy: str, draw: random.Random) -> None:
    snapshot = mixed_snapshot()
    shuffled: dict[str, Any] = {}
    for name in UNORDERED:
        parts = list(getattr(snapshot, name))
        draw.shuffle(parts)
        shuffled[name] = tuple(parts)
    types = list(make_types())
    draw.shuffle(types)
    other = replace(snapshot, catalogue=make_catalogue(tuple(types)), **shuffled)
    assert encoded(other, policy) == mixed_plan(policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_a_plan_made_twice_is_the_same(policy: str) -> None:
    """No state is kept between plans."""
    snapshot = mixed_snapshot()
    first = encoded(snapshot, policy)
    plan_for(make_snapshot(*make_pods(7, cpu="3")), packing_policy=policy)
    assert encoded(snapshot, policy) == first
