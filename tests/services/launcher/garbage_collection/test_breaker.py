"""Never too much is deleted at once (F23)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.launcher.garbage_collection.breaker import BREAKER_SECONDS, Breaker


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
