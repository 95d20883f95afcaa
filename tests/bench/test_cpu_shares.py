"""CPU seconds of a process count from the beginning of the measurement, and stay when it ends."""

from __future__ import annotations

import os

from bench.stacks.cpu_shares import CpuShares, cpu_seconds

NOBODY = 2**22 + 1
"""A pid above the largest one that Linux assigns."""


def test_what_ran_before_does_not_count_and_what_is_new_counts_from_its_start() -> None:
    me = os.getpid()
    running, new = CpuShares({"me": me}), CpuShares({})
    for shares in (running, new):
        shares.record("me", me)
    assert 0 <= running.seconds()["me"] < new.seconds()["me"]


def test_several_processes_of_one_name_are_added_and_one_that_is_gone_keeps_its_seconds() -> None:
    shares = CpuShares({})
    shares.record("me", os.getpid())
    before = shares.seconds()["me"]
    shares.record("me", NOBODY)
    assert cpu_seconds(NOBODY) == 0.0
    assert shares.seconds() == {"me": before}
