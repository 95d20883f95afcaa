"""Records follow the bodies of the mirror, and a record stays the same object while its body does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.records import NAMESPACES, decode_record
from shared.domain.workloads.namespaces import Namespace
from shared.redis.mirror import bodies as memory
from shared.redis.mirror.bodies import Bodies
from shared.simulation.decisions.assembling import DecodedRecords

NAMES = st.sampled_from("abcd")
STEPS = st.lists(st.tuples(NAMES, st.none() | st.integers(0, 3)), max_size=12)
"""A name and its new value; None: it is removed."""


def body(name: str, value: int) -> bytes:
    return msgspec.json.encode(Namespace(f"uid-{name}", name, {"value": str(value)}))


def apply(bodies: dict[str, bytes], steps: Iterable[tuple[str, int | None]]) -> None:
    for name, value in steps:
        if value is None:
            bodies.pop(name, None)
        else:
            bodies[name] = body(name, value)


def as_they_are(bodies: Mapping[str, bytes]) -> dict[str, Namespace]:
    return {name: decode_record(NAMESPACES, one) for name, one in bodies.items()}


@pytest.mark.parametrize("made", [dict, Bodies])
@given(rounds=st.lists(STEPS, max_size=4), reload=st.booleans())
def test_records_are_those_of_the_bodies(
    made: Callable[[Mapping[str, bytes]], dict[str, bytes]],
    rounds: list[list[tuple[str, int | None]]],
    reload: bool,
) -> None:
    """Also after the mirror was loaded anew."""
    decoded, bodies = DecodedRecords(), made({})
    for steps in rounds:
        before = decoded.of(NAMESPACES, bodies)
        kept = dict(before)
        apply(bodies, steps)
        bodies = made(dict(bodies)) if reload else bodies
        found = decoded.of(NAMESPACES, bodies)
        assert found == as_they_are(bodies)
        assert before == kept, "what callers have is not changed"
        assert all(found[n] is one for n, one in kept.items() if found.get(n) == one)


@pytest.mark.parametrize("bad", ["a", "c"])
@pytest.mark.parametrize("made", [dict, Bodies])
def test_a_body_that_cannot_be_read_is_not_passed_over(
    made: Callable[[Mapping[str, bytes]], dict[str, bytes]], bad: str
) -> None:
    """Nor those before and after it: whoever asks again must not get a picture that lacks them."""
    decoded, bodies = DecodedRecords(), made({})
    decoded.of(NAMESPACES, bodies)
    for name in "abc":
        bodies[name] = b"of another version" if name == bad else body(name, 1)
    for _ in range(2):
        with pytest.raises(msgspec.MsgspecError):
            decoded.of(NAMESPACES, bodies)
    bodies.pop(bad)
    bodies = made(dict(bodies))
    assert decoded.of(NAMESPACES, bodies) == as_they_are(bodies)


def test_the_same_bodies_give_the_same_object() -> None:
    decoded, bodies = DecodedRecords(), Bodies({"a": body("a", 1)})
    found = decoded.of(NAMESPACES, bodies)
    assert decoded.of(NAMESPACES, bodies) is found
    bodies["a"] = body("a", 2)
    assert decoded.of(NAMESPACES, bodies) is not found


def test_more_changes_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "RECENT", 2)
    decoded, bodies = DecodedRecords(), Bodies({})
    decoded.of(NAMESPACES, bodies)
    apply(bodies, [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("a", None)])
    assert decoded.of(NAMESPACES, bodies) == as_they_are(bodies)
