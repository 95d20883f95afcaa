"""Our own writes count until the picture shows them, within their bounds."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shared.redis.mirror.pending_writes import PendingWrites

KEYS = st.sampled_from("abc")
SECONDS = st.integers(0, 20)


def never(_key: str, _value: int) -> bool:
    return False


@given(at=st.floats(-1e6, 1e6), later=st.floats(0.0, 1e9))
def test_without_a_bound_no_time_ends_a_write(at: float, later: float) -> None:
    """A mirror may stand still for as long as it likes."""
    writes: PendingWrites[str, int] = PendingWrites()
    writes.note("a", 1, now=at)
    assert writes.unshown(never, now=at + later) == {"a": 1}


def test_a_write_that_is_shown_is_forgotten_for_good() -> None:
    writes: PendingWrites[str, int] = PendingWrites()
    writes.note("a", 1)
    assert writes.unshown(lambda key, value: (key, value) == ("a", 1)) == {}
    assert writes.unshown(never) == {}


def test_a_picture_from_before_the_write_does_not_end_it() -> None:
    writes: PendingWrites[str, int] = PendingWrites()
    writes.note("a", 1, now=5.0, least_seconds=30.0)
    assert writes.unshown(lambda *_: True, now=34.9) == {"a": 1}
    assert writes.unshown(lambda *_: True, now=35.0) == {}


class Machine(RuleBasedStateMachine):
    """Any order of writes, changes of the picture and questions, beside a model that remembers everything."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: PendingWrites[str, int] = PendingWrites()
        self.now = 0.0
        self.serial = 0
        self.latest: dict[str, tuple[int, float, float]] = {}
        """Key -> (value, counts until at least, counts until at most)."""
        self.shown: set[int] = set()

    @rule(key=KEYS, least=SECONDS, most=st.one_of(SECONDS, st.just(math.inf)))
    def write(self, key: str, least: float, most: float) -> None:
        self.serial += 1
        self.writes.note(key, self.serial, now=self.now, least_seconds=least, most_seconds=most)
        self.latest[key] = self.serial, self.now + least, self.now + most

    @rule(key=KEYS)
    def discard(self, key: str) -> None:
        self.writes.discard(key)
        self.latest.pop(key, None)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(key=KEYS)
    def show(self, key: str) -> None:
        if key in self.latest:
            self.shown.add(self.latest[key][0])

    @invariant()
    def the_latest_write_counts_within_its_bounds_until_it_is_shown(self) -> None:
        self.latest = {
            key: (value, least, most)
            for key, (value, least, most) in self.latest.items()
            if self.now < most and (self.now < least or value not in self.shown)
        }
        expected = {key: value for key, (value, _, _) in self.latest.items()}
        found = self.writes.unshown(lambda _key, value: value in self.shown, now=self.now)
        assert found == expected
        assert {key: self.writes.get(key, now=self.now) for key in "abc"} == {
            key: expected.get(key) for key in "abc"
        }
        assert len(self.writes) == len(expected)


TestAnyOrder = Machine.TestCase
