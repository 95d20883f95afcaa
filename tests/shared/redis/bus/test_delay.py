"""How long a retry waits (reliability 5.3)."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.redis.bus.attempt import AttemptLimits
from shared.redis.bus.delay import delay_seconds


@given(st.floats(0, 10_000), st.integers(0, 200), st.integers())
def test_a_requested_delay_is_never_shortened(requested: Any, attempt: Any, seed: Any) -> None:
    """It may be a Retry-After; jitter only adds up to a fifth, and a message that waits long comes less often."""
    seconds = delay_seconds(requested, attempt, random.Random(seed))
    longest = max(requested, 30.0) if attempt >= 12 else requested
    assert requested <= seconds <= longest * 1.2 + 1e-9


@given(st.floats(-10, 10_000), st.integers())
def test_no_requested_delay_makes_a_dead_letter_within_minutes(requested: Any, seed: Any) -> None:
    """What a message waits for may be away for that long: an API server, a watcher, room in a pool."""
    source = random.Random(seed)
    retries = range(AttemptLimits().retries)
    assert sum(delay_seconds(requested, attempt, source) for attempt in retries) >= 50 * 60


@given(st.integers(0, 1000), st.integers())
def test_without_a_request_the_delay_doubles_up_to_its_limit(attempt: Any, seed: Any) -> None:
    """1, 2, 4 … 300 s, each ± 50 %."""
    seconds = delay_seconds(None, attempt, random.Random(seed))
    middle = min(300.0, 2.0**attempt)
    assert middle / 2 <= seconds <= middle * 1.5
