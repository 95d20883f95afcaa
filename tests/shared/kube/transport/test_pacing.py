"""Token bucket (F16)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Throttled
from shared.kube.transport.pacing import TokenBucket
from tests.support.clock.fake import FakeClock


@given(st.integers(1, 50), st.integers(1, 100), st.lists(st.floats(0, 2), max_size=60))
def test_never_more_than_burst_and_rate_allow(rate: int, burst: int, pauses: list[float]) -> None:
    clock = FakeClock()
    began = clock.seconds
    bucket = TokenBucket(rate, burst, clock)
    for number, pause in enumerate(pauses, start=1):
        clock.seconds += pause
        sent_at = clock.seconds - began + bucket.reserve()
        assert number <= burst + rate * sent_at + 1e-6


def test_a_queue_beyond_thirty_seconds_is_refused() -> None:
    bucket = TokenBucket(1, 1, FakeClock())
    for _ in range(31):
        bucket.reserve()
    with pytest.raises(Throttled, match="Dovetail's own limit"):
        bucket.reserve()
