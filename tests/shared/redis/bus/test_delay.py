"""How long a retry waits (reliability 5.3)."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.redis.bus.delay import delay_seconds


@given(st.floats(0, 10_000), st.integers(0, 200), st.integers())
def test_a_requested_delay_is_never_shortened(requested: Any, attempt: Any, seed: Any) -> None:
    """It may be a Retry-After; jitter only adds up to a fifth."""
    seconds = delay_seconds(requested, attempt, random.Random(seed))
    assert requested <= seconds <= requested * 1.2 + 1e-9


@given(st.integers(0, 1000), st.integers())
def test_without_a_request_the_delay_doubles_up_to_its_limit(attempt: Any, seed: Any) -> None:
    """1, 2, 4 … 300 s, each ± 50 %."""
    seconds = delay_seconds(None, attempt, random.Random(seed))
    middle = min(300.0, 2.0**attempt)
    assert middle / 2 <= seconds <= middle * 1.5
