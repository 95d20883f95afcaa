"""The same snapshot gives the same plan, byte for byte, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import msgspec, sys
from shared.domain import labels as keys
from tests.support.builders import *
from tests.support.planning import plan_for
pods = [
    *make_pods(40, "a", cpu="700m", labels={"app": "web"}, spread=(make_spread(keys.ZONE),)),
    *make_pods(40, "b", cpu="700m"),
    *make_pods(5, "c", labels={"app": "db"}, anti_affinity=(make_term(keys.ZONE, "db"),)),
    *make_pods(5, "d", labels={"app": "x"}, affinity=(make_term(keys.ZONE, "x"),)),
    make_pod("e", node_selector={"unknown": "label"}),
]
pools = (make_pool("a", limits={"cpu": 64000}), make_pool("b", labels={"x": "y"}))
plan = plan_for(make_snapshot(*pods, pools=pools, nodes=(make_node(),)))
sys.stdout.buffer.write(msgspec.json.encode(plan))
"""


def _plan_in_a_process(hash_seed: str) -> bytes:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return found.stdout


def test_two_processes_with_different_hash_seeds_agree() -> None:
    first, second = _plan_in_a_process("1"), _plan_in_a_process("4242")
    assert len(first) > 1000
    assert first == second
