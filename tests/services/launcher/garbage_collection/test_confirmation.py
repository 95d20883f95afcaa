"""Nothing is deleted at the first sweep that misses it, and never too much at once (R7, F23)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.launcher.garbage_collection.confirmation import BREAKER_SECONDS, Breaker, Confirmation

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


@given(st.integers(0, 60), st.integers(0, 200))
def test_the_breaker_lets_through_five_or_a_fifth(doomed: int, total: int) -> None:
    """F23: a wrong list deletes nothing."""
    names = [str(number) for number in range(doomed)]
    assert Breaker().admits("p", names, total, now=0.0) == (doomed <= 5 or doomed <= total // 5)


def test_the_breaker_adds_up_ten_minutes_of_a_pool() -> None:
    """F23: five at each sweep would be a mass deletion too; the same name twice is one."""
    breaker = Breaker()
    assert breaker.admits("p", ["a", "b", "c", "d"], 5, now=0.0)
    assert breaker.admits("p", ["d", "e"], 5, now=30.0)
    assert not breaker.admits("p", ["f"], 5, now=60.0)
    assert breaker.admits("q", ["f"], 5, now=60.0), "another pool"
    assert breaker.admits("p", ["f"], 30, now=60.0), "a larger pool"
    assert breaker.admits("p", ["g", "h", "i", "j"], 5, now=BREAKER_SECONDS + 30.0)
    assert breaker.taken.keys() == {"p", "q"}
    assert breaker.admits("p", [], 5, now=9 * BREAKER_SECONDS)
    assert breaker.taken == {}, "it does not grow"
