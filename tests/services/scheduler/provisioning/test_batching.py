"""The batching window (BAT-02..BAT-04)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.provisioning.batching import Window

TRIGGERS = st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 5)), min_size=1, max_size=40)


def test_a_window_closes_after_a_second_without_news() -> None:
    """BAT-02: idle and longest time of a batch."""
    window = Window(1.0, 10.0)
    assert window.closes_at() is None
    window.add("a", 100.0)
    assert window.closes_at() == 101.0
    window.add("b", 100.9)
    assert window.closes_at() == pytest.approx(101.9)


def test_a_stream_of_pods_cannot_hold_a_window_open() -> None:
    """BAT-02, BAT-04: ten seconds in all."""
    window = Window(1.0, 10.0)
    for number in range(100):
        window.add(f"p{number}", 100.0 + number / 2)
    assert window.closes_at() == 110.0


def test_a_repeat_does_not_extend_the_window() -> None:
    """BAT-03: a repeated trigger."""
    window = Window(1.0, 10.0)
    assert window.add("a", 100.0)
    assert not window.add("a", 100.9)
    assert window.closes_at() == 101.0


def test_closing_counts_and_empties() -> None:
    window = Window(1.0, 10.0)
    window.add("a", 100.0)
    window.add("b", 100.5)
    assert window.close() == (2, 0.5)
    assert window.closes_at() is None
    assert window.close() == (0, 0.0)
    assert window.add("a", 200.0), "the next window knows nothing of the last"
    assert window.closes_at() == 201.0


@given(TRIGGERS, st.floats(0.1, 3), st.floats(0.1, 20))
def test_a_window_is_never_open_longer_than_allowed(
    triggers: list[tuple[str, float]], idle: float, longest: float
) -> None:
    """BAT-02, BAT-03: any triggers at any distances."""
    window, now, new_at = Window(idle, longest), 1000.0, 1000.0
    seen: set[str] = set()
    for uid, distance in triggers:
        now += distance
        new_at = now if uid not in seen else new_at
        seen.add(uid)
        window.add(uid, now)
        opened, closes = window.opened_at, window.closes_at()
        assert opened is not None
        assert closes is not None
        assert closes <= opened + longest
        assert closes <= new_at + idle
    assert window.close()[0] == len(seen)
