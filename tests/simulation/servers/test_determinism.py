"""A seed decides everything that the servers do, whatever order Python gives to sets."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def history(hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.servers.history"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.timeout(300)
@pytest.mark.nightly
def test_two_processes_with_other_hashes_live_the_same_life() -> None:
    first, second = history("1"), history("2")
    assert int(first.split()[0]) > 100
    assert first == second
