"""Nothing is destroyed on one look, and never too much at once (R7, F23)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.launcher.garbage import Sightings, within_breaker

LOOKS = st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.floats(0.1, 50)), max_size=20)


def test_the_second_look_after_the_grace_confirms() -> None:
    sightings = Sightings()
    assert sightings.confirmed(["a"], now=100.0, grace=60.0) == []
    assert sightings.confirmed(["a"], now=159.9, grace=60.0) == []
    assert sightings.confirmed(["a", "b"], now=160.0, grace=60.0) == ["a"]


def test_what_reappears_is_forgotten() -> None:
    """R7."""
    sightings = Sightings()
    sightings.confirmed(["a"], now=100.0, grace=60.0)
    sightings.confirmed([], now=130.0, grace=60.0)
    assert sightings.confirmed(["a"], now=170.0, grace=60.0) == []
    assert sightings.first == {"a": 170.0}


@given(LOOKS, st.floats(0.1, 100))
def test_only_what_was_lost_at_every_look_for_the_grace_is_confirmed(
    looks: list[tuple[set[str], float]], grace: float
) -> None:
    """R7, against the definition: an unbroken run of looks at least ``grace`` long."""
    sightings, now = Sightings(), 1000.0
    since: dict[str, float] = {}
    for lost, distance in looks:
        now += distance
        since = {name: since.get(name, now) for name in lost}
        expected = {name for name, first in since.items() if now - first >= grace}
        assert set(sightings.confirmed(lost, now=now, grace=grace)) == expected
        assert len(sightings.first) == len(lost), "it does not grow"


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_breaker_lets_through_five_or_a_fifth(doomed: int, total: int) -> None:
    """F23."""
    allowed = within_breaker(["x"] * doomed, total)
    assert allowed == (doomed <= 5 or doomed <= total // 5)
