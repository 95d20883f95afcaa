"""Pods that may prevent consolidation are logged, now and then (SCH-28)."""

from __future__ import annotations

from structlog.testing import capture_logs

from services.scheduler.provisioning.logs import (
    AGAIN_SECONDS,
    ANTI_AFFINITY,
    MOST_LOGGED,
    SPREAD,
    PreferenceLog,
)
from shared.domain import labels as keys
from shared.domain.workloads.pods import Pod
from tests.support.planning.builders import make_pod, make_pods, make_spread, make_term

SOFT = make_spread(keys.ZONE, when_unsatisfiable="ScheduleAnyway")


def logged(preferences: PreferenceLog, *pods: Pod, now: float) -> list[tuple[str, str]]:
    with capture_logs() as lines:
        preferences.note(pods, now=now)
    return [(line["pod"], line["event"]) for line in lines]


def test_what_a_pod_only_prefers_is_told_once_an_hour() -> None:
    preferences = PreferenceLog()
    both = make_pod("both", spread=(SOFT,), anti_affinity=(make_term(keys.HOSTNAME, weight=1),))
    expected = [("default/both", ANTI_AFFINITY), ("default/both", SPREAD)]
    assert logged(preferences, both, now=0.0) == expected
    assert logged(preferences, both, now=AGAIN_SECONDS - 1) == []
    assert logged(preferences, both, now=AGAIN_SECONDS) == expected


def test_what_a_pod_requires_is_its_right() -> None:
    hard = make_pod(spread=(make_spread(keys.ZONE),), anti_affinity=(make_term(keys.HOSTNAME),))
    assert logged(PreferenceLog(), hard, make_pod(), now=0.0) == []


def test_a_crowd_is_told_of_bit_by_bit() -> None:
    preferences, crowd = PreferenceLog(), make_pods(MOST_LOGGED + 1, spread=(SOFT,))
    assert len(logged(preferences, *crowd, now=0.0)) == MOST_LOGGED
    assert len(logged(preferences, *crowd, now=1.0)) == 1
