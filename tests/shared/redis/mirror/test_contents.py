"""Sums over the mirror's entries: any history with the same end has the same sum, any other end another."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.redis.mirror.integrity import Contents, Digester, Heartbeat, Position, seal
from shared.redis.mirror.integrity.heartbeats import unseal

KIND = st.sampled_from(["pods", "nodes"])
NAME = st.sampled_from(["a", "b", "c", "d"])
BODY = st.none() | st.sampled_from([b"1", b"2", b"3"])
HISTORY = st.lists(st.tuples(KIND, NAME, BODY), max_size=40)
DIGESTER = Digester("secret")


def after(
    history: list[tuple[str, str, bytes | None]],
) -> tuple[Contents, dict[tuple[str, str], bytes]]:
    """The sums that were kept step by step, and what is there in the end."""
    contents = Contents(["pods", "nodes"])
    there: dict[tuple[str, str], bytes] = {}
    for kind, name, body in history:
        if body is None:
            contents.delete(kind, name)
            there.pop((kind, name), None)
        else:
            contents.put(kind, name, DIGESTER.entry(kind, name, body).summand)
            there[kind, name] = body
    return contents, there


def digests(contents: Contents, generation: int = 1) -> dict[str, str]:
    return contents.digests(DIGESTER, "e", generation)


@given(HISTORY, HISTORY)
def test_sums_are_equal_when_and_only_when_the_entries_are(left: Any, right: Any) -> None:
    mine, there = after(left)
    other, elsewhere = after(right)
    assert (digests(mine) == digests(other)) == (there == elsewhere)
    differs = mine.differs(digests(other), (), DIGESTER, "e", 1)
    assert (differs == "") == (there == elsewhere)


@given(HISTORY)
def test_counts_are_of_what_is_there(history: list[tuple[str, str, bytes | None]]) -> None:
    contents, there = after(history)
    assert sum(contents.counts().values()) == len(there)


@given(HISTORY, st.integers(2, 9))
def test_a_digest_holds_for_one_generation_and_one_epoch(
    history: list[tuple[str, str, bytes | None]], generation: int
) -> None:
    contents, _ = after(history)
    told = digests(contents)
    assert contents.differs(told, (), DIGESTER, "e", generation)
    assert contents.differs(told, (), DIGESTER, "f", 1)
    assert contents.differs(told, (), Digester("other"), "e", 1)


def test_a_reader_of_some_kinds_compares_those() -> None:
    told = digests(after([("pods", "a", b"1"), ("nodes", "n", b"1")])[0])
    mine, _ = after([("nodes", "n", b"1")])
    assert mine.differs(told, ["nodes"], DIGESTER, "e", 1) == ""
    assert mine.differs(told, [], DIGESTER, "e", 1) == "pods"


@given(st.tuples(KIND, NAME, st.binary(max_size=9)), st.tuples(KIND, NAME, st.binary(max_size=9)))
def test_only_equal_entries_have_equal_digests(left: Any, right: Any) -> None:
    """Where a name ends and a body begins is part of it."""
    equal = DIGESTER.entry(*left) == DIGESTER.entry(*right)
    assert equal == (left == right)
    assert Digester("other").entry(*left) != DIGESTER.entry(*left)


@given(st.binary(max_size=300), st.integers(0, 2000))
def test_only_the_holder_of_the_key_makes_heartbeats(noise: bytes, at: int) -> None:
    beat = Heartbeat("e", 7, 3, {"pods": "x"}, {"pods": Position("9", True, 0.5)})
    sealed = seal(beat, DIGESTER)
    assert unseal(sealed, DIGESTER) == beat
    assert unseal(sealed, Digester("other")) is None
    assert unseal(noise, DIGESTER) is None
    changed = bytearray(sealed)
    changed[at % len(sealed)] ^= 1
    assert unseal(bytes(changed), DIGESTER) is None
