"""What is done about a lifecycle hook, when it gets a heartbeat, and when it is completed (INT-41)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.interruption.self_managed_nodes.hook_timing import (
    GIVE_UP_SECONDS,
    HookStep,
    due,
    step_for_hook,
    timing,
)
from shared.cloud.autoscaling import HookTimes, Token
from shared.domain.machines.lifecycle_actions import Hook, LifecycleAction
from shared.domain.pools.nodepools import CORDON, DELETE, DRAIN, DRY_RUN, IGNORE
from shared.settings import InterruptionSettings, read

HOOK = Hook("drain", "workers", "token", 30.0)
ACTION = LifecycleAction("i-1", 100.0, 400.0, (HOOK,))
HOUR = 3600.0
COMPLETE, HEARTBEAT, NOTHING = HookStep.COMPLETE, HookStep.HEARTBEAT, HookStep.NOTHING


def said(now: float, *, hook: Hook = HOOK, drained: bool = False, last: float = 100.0) -> HookStep:
    return due(ACTION, hook, drained=drained, last_beat=last, now=now)


def test_it_beats_in_time_and_ends_when_the_node_is_drained() -> None:
    assert [said(at) for at in (100, 129, 130, 200)] == [NOTHING, NOTHING, HEARTBEAT, HEARTBEAT]
    assert said(110, drained=True) == COMPLETE
    assert said(131, last=130.0) == NOTHING


def test_a_drain_that_gave_up_ends_it_too() -> None:
    """The terminator has a moment to say so itself."""
    assert said(400 + GIVE_UP_SECONDS - 1) == HEARTBEAT
    assert said(400 + GIVE_UP_SECONDS) == COMPLETE


def test_without_heartbeats_it_is_only_ended() -> None:
    silent = Hook("drain", "workers")
    assert [said(at, hook=silent) for at in (200, 400, 406)] == [NOTHING, NOTHING, COMPLETE]


@pytest.mark.parametrize(
    ("times", "heartbeat", "limit", "expected"),
    [
        (HookTimes(3600, 172_800), 300.0, HOUR, (HOUR, 300.0)),
        (HookTimes(60, 6000), 300.0, HOUR, (HOUR, 30.0)),
        (HookTimes(60, 6000), 0.0, HOUR, (54.0, 0.0)),  # its own timeout, less a tenth
        (HookTimes(30, 3000), 300.0, 2 * HOUR, (2940.0, 15.0)),  # its global timeout, less a minute
        (None, 300.0, HOUR, (HOUR, 15.0)),  # not known: as for the shortest there is
        (None, 0.0, HOUR, (HOUR, 0.0)),
    ],
)
def test_the_drain_ends_before_the_hook(
    times: HookTimes | None, heartbeat: float, limit: float, expected: tuple[float, float]
) -> None:
    until, every = timing(times, at=1000.0, heartbeat=heartbeat, limit=limit)
    assert (until - 1000, every) == expected


@given(st.integers(30, 7200), st.integers(0, 7200), st.integers(0, 10**6))
def test_two_heartbeats_fit_and_the_end_is_ours(timeout: int, heartbeat: int, limit: int) -> None:
    """Whatever the settings say."""
    times = HookTimes(timeout, min(172_800, 100 * timeout))
    until, every = timing(times, at=0.0, heartbeat=heartbeat, limit=limit)
    assert 2 * every <= timeout
    latest = times.global_seconds if every else times.heartbeat_seconds
    assert until + min(GIVE_UP_SECONDS, 3) <= latest


def test_a_token_that_can_be_none_is_not_sent() -> None:
    """EC2 Auto Scaling would refuse the call; the instance names the action as well."""
    token = "87654321-4321-4321-4321-210987654321"
    assert Token("g", "h", token, "i-1").parameters["LifecycleActionToken"] == token
    assert "LifecycleActionToken" not in Token("g", "h", "short", "i-1").parameters


def settings(**said: Any) -> InterruptionSettings:
    return read(InterruptionSettings, cluster_name="c", aws_region="us-west-2", **said)


@pytest.mark.parametrize(
    ("hooks", "mode", "expected"),
    [
        (IGNORE, DELETE, IGNORE),
        (IGNORE, CORDON, IGNORE),
        (CORDON, DELETE, CORDON),
        (DRAIN, DELETE, DRAIN),
        (DRAIN, CORDON, CORDON),
        (DRAIN, DRY_RUN, DRAIN),  # what would be done
    ],
)
def test_what_a_group_that_ends_an_instance_does(hooks: str, mode: str, expected: str) -> None:
    """INT-41: off by default."""
    assert step_for_hook(settings(lifecycle_hooks=hooks, interruption_mode=mode)) == expected
    assert step_for_hook(settings()) == IGNORE


def test_nothing_is_done_about_self_managed_nodes_when_they_are_switched_off() -> None:
    off = settings(lifecycle_hooks=DRAIN, self_managed_nodes=False)
    assert step_for_hook(off) == IGNORE
