"""``POST /simulate`` with bodies made by hypothesis: each one gets an answer of JSON that says what is wrong, never a
traceback. What this calls is what the simulating process runs.
"""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.status.simulate import Request, answer_request
from tests.shared.simulation.documents import (
    controller,
    instance_type,
    node_pool,
    pod,
    provisioner,
)

ANSWERED = {200, 400, 413, 422}
VALID = [pod("a"), node_pool(), provisioner(), instance_type(), controller("Deployment")]
NUMBERS = st.sampled_from([0, -1, 2**31, 2**63 - 1, -(2**63), 1e308, -1e308, 5e-324])
QUANTITIES = st.sampled_from(["", "-1", "1e400", "9" * 400, "0x10", "1Ki" * 3, "NaN", "\x00"])
JUNK = st.recursive(
    st.none() | st.booleans() | NUMBERS | QUANTITIES | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every field and element below ``value``."""
    steps = list(value.items()) if isinstance(value, dict) else []
    steps += list(enumerate(value)) if isinstance(value, list) else []
    below = (paths(inner, (*prefix, key)) for key, inner in steps)
    return [(*prefix, key) for key, _ in steps] + [path for found in below for path in found]


@st.composite
def damaged(draw: st.DrawFn) -> list[Any]:
    """Valid objects, one of whose fields has another value."""
    objects = copy.deepcopy(VALID)
    path = draw(st.sampled_from(paths(objects)))
    inside: Any = objects
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = draw(JUNK)
    return objects


def status_of(body: bytes, query: dict[str, str] | None = None) -> int:
    """The status of the answer, which must be JSON."""
    answer = answer_request(Request(body, query or {}))
    found = orjson.loads(answer.body)
    assert "error" in found or answer.status in (200, 422)
    return answer.status


@given(st.binary(max_size=64))
def test_bytes_of_any_kind_are_answered(body: bytes) -> None:
    assert status_of(body) in ANSWERED


@pytest.mark.slow
@given(JUNK | st.lists(JUNK, max_size=4) | st.fixed_dictionaries({"objects": JUNK}))
def test_json_of_any_shape_is_answered(document: Any) -> None:
    assert status_of(orjson.dumps(document)) in ANSWERED


@pytest.mark.slow
@given(damaged())
def test_one_damaged_field_is_answered(objects: list[Any]) -> None:
    assert status_of(orjson.dumps(objects)) in ANSWERED


@given(st.dictionaries(st.sampled_from(["policy", "effort", "region", "x"]), st.text(max_size=8)))
def test_options_of_any_text_are_answered(query: dict[str, str]) -> None:
    assert status_of(orjson.dumps(VALID), query) in ANSWERED


def test_arrays_nested_without_end_are_refused() -> None:
    assert status_of(b"[" * 500_000) == 400


def test_a_number_beyond_all_limits_is_answered() -> None:
    assert status_of(b'[{"apiVersion":"v1","kind":"Pod","x":' + b"9" * 100_000 + b"}]") in ANSWERED
