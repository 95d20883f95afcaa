"""Bodies tell which records changed since somebody asked."""

from __future__ import annotations

import pytest

from shared.redis.mirror.bodies import RECENT, Bodies


def test_changes_are_told_in_their_order() -> None:
    bodies = Bodies({"a": b"1"})
    bodies["b"] = b"2"
    seen = bodies.count
    bodies["a"] = b"3"
    bodies.pop("b")
    del bodies["a"]
    assert bodies.changed_since(seen) == ["a", "b", "a"]
    assert bodies.changed_since(bodies.count) == []


def test_changes_that_are_no_longer_remembered_are_not_left_out() -> None:
    bodies = Bodies({})
    for number in range(RECENT + 1):
        bodies["a"] = b"%d" % number
    assert bodies.changed_since(0) is None
    assert bodies.changed_since(1) == ["a"] * RECENT


@pytest.mark.parametrize("change", ["clear", "popitem", "setdefault", "update", "__ior__"])
def test_a_change_that_would_not_be_counted_is_refused(change: str) -> None:
    with pytest.raises(TypeError, match="changed by assignment"):
        getattr(Bodies({"a": b"1"}), change)({"b": b"2"})
