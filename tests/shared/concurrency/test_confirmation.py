"""Nothing is believed to be gone at the first look that misses it (R7)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.concurrency.confirmation import Confirmation

SWEEPS = st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.floats(0.1, 50)), max_size=20)


def test_the_second_look_after_the_grace_confirms() -> None:
    confirmation = Confirmation()
    assert confirmation.confirmed(["a"], now=100.0, grace=60.0) == []
    assert confirmation.confirmed(["a"], now=159.9, grace=60.0) == []
    assert confirmation.confirmed(["a", "b"], now=160.0, grace=60.0) == ["a"]


def test_what_reappears_is_forgotten() -> None:
    """R7: absence alone proves nothing."""
    confirmation = Confirmation()
    confirmation.confirmed(["a"], now=100.0, grace=60.0)
    confirmation.confirmed([], now=130.0, grace=60.0)
    assert confirmation.confirmed(["a"], now=170.0, grace=60.0) == []
    assert confirmation.first == {"a": 170.0}


@given(SWEEPS, st.floats(0.1, 100))
def test_only_what_was_lost_at_every_look_for_the_grace_is_confirmed(
    sweeps: list[tuple[set[str], float]], grace: float
) -> None:
    """R7, against the definition: an unbroken run of sweeps at least ``grace`` long."""
    confirmation, now = Confirmation(), 1000.0
    since: dict[str, float] = {}
    for lost, distance in sweeps:
        now += distance
        since = {name: since.get(name, now) for name in lost}
        expected = {name for name, first in since.items() if now - first >= grace}
        assert set(confirmation.confirmed(lost, now=now, grace=grace)) == expected
        assert len(confirmation.first) == len(lost), "it does not grow"
