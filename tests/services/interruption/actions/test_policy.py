"""What pools may choose beyond Karpenter: each off by default (INT-40, INT-43)."""

from __future__ import annotations

from typing import Any

import pytest

from services.interruption.actions.policy import (
    Policy,
    Step,
    policy_of,
    step_for,
)
from services.interruption.notices.notice import Notice, NoticeKind
from shared.domain.pools.nodepools import CORDON, DELETE, DRAIN, DRY_RUN, IGNORE
from shared.settings import InterruptionSettings, read
from tests.support.planning.builders import make_pool

NOW = 1_000_000.0
DAY = 86_400.0
ALL = (
    NoticeKind.SPOT, NoticeKind.STOPPED, NoticeKind.TERMINATED, NoticeKind.SCHEDULED, NoticeKind.EVENT_STATUS,
    NoticeKind.INSTANCE_STATUS, NoticeKind.SYSTEM_STATUS, NoticeKind.CAPACITY_RESERVATION,
)  # fmt: skip


def step(kind: NoticeKind, policy: Policy, deadline: float | None = None) -> str:
    return step_for(Notice("n", kind, ("i-1",), deadline=deadline), policy, now=NOW)


def settings(**said: Any) -> InterruptionSettings:
    return read(InterruptionSettings, cluster_name="c", aws_region="us-west-2", **said)


def test_by_default_it_is_karpenters_table() -> None:
    """8.3: everything deletes at once, a recommendation is only told."""
    policy = policy_of(make_pool(), settings())
    assert {step(kind, policy, NOW + 14 * DAY) for kind in ALL} == {DELETE}
    assert step(NoticeKind.REBALANCE, policy) == Step.REPORT
    assert policy.webhook
    assert policy_of(None, settings()) == policy


def test_a_pool_decides_for_itself_and_the_settings_for_the_others() -> None:
    chosen = settings(interruption_mode=DRY_RUN, rebalance=CORDON, maintenance_lead="2h")
    assert policy_of(make_pool(), chosen) == Policy(DRY_RUN, CORDON, 7200.0)
    pool = make_pool(
        interruption=DELETE, rebalance=IGNORE, maintenance_lead_seconds=0.0, webhook_off=True
    )
    assert policy_of(pool, chosen) == Policy(DELETE, IGNORE, 0.0, webhook=False)


@pytest.mark.parametrize(
    ("mode", "rebalance", "expected"),
    [
        (DELETE, IGNORE, Step.REPORT),
        (DELETE, CORDON, CORDON),
        (DELETE, DRAIN, Step.REPLACE),
        (CORDON, IGNORE, Step.REPORT),
        (CORDON, DRAIN, CORDON),
        (DRY_RUN, DRAIN, Step.REPLACE),
    ],
)
def test_what_a_recommendation_does(mode: str, rebalance: str, expected: str) -> None:
    """INT-40: rebalance recommendations; INT-43: one service drains a node."""
    assert step(NoticeKind.REBALANCE, Policy(mode, rebalance)) == expected


@pytest.mark.parametrize("kind", ALL)
def test_cordon_only_drains_nothing_but_clears_away_what_has_ended(kind: NoticeKind) -> None:
    ended = kind in (NoticeKind.STOPPED, NoticeKind.TERMINATED)
    assert step(kind, Policy(CORDON)) == (DELETE if ended else CORDON)


@pytest.mark.parametrize("kind", [NoticeKind.SCHEDULED, NoticeKind.EVENT_STATUS])
@pytest.mark.parametrize(
    ("ahead", "expected"),
    [(2 * DAY, Step.WAIT), (DAY + 1, Step.WAIT), (DAY, DELETE), (-5.0, DELETE)],
)
def test_a_scheduled_event_waits_until_its_lead_time(
    kind: NoticeKind, ahead: float, expected: str
) -> None:
    assert step(kind, Policy(lead_seconds=DAY), NOW + ahead) == expected


def test_an_event_without_a_start_is_acted_on_at_once() -> None:
    assert step(NoticeKind.SCHEDULED, Policy(lead_seconds=0.0)) == DELETE


@pytest.mark.parametrize("mode", [DELETE, CORDON, DRY_RUN])
def test_a_cancelled_event_opens_the_node_again(mode: str) -> None:
    assert step(NoticeKind.SCHEDULED_OVER, Policy(mode)) == Step.REOPEN


def test_a_spot_warning_never_waits() -> None:
    assert step(NoticeKind.SPOT, Policy(lead_seconds=0.0), NOW + 120) == DELETE
