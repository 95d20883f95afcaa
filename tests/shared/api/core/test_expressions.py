"""Requirements are read by what they say, however often the same were read before."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.core.expressions import SELECTOR_OPERATORS, parse_expression, parse_expressions
from shared.domain.expressions import Expression
from shared.errors import InvalidObject

ZONE = "topology.kubernetes.io/zone"
ZONES = {"key": ZONE, "operator": "In", "values": ["a", "b"]}


def faults(raw: Any, field: str) -> str:
    with pytest.raises(InvalidObject) as caught:
        parse_expression(raw, field)
    return str(caught.value)


@pytest.mark.parametrize("least", [None, 1, 2])
def test_the_second_reading_gives_the_same(least: int | None) -> None:
    raw = {**ZONES, "minValues": least}
    expected = Expression(ZONE, "In", ("a", "b"), least)
    assert [parse_expression(dict(raw), f"requirements[{i}]") for i in range(2)] == [expected] * 2


def test_the_order_of_values_stays() -> None:
    read = parse_expressions([ZONES, {**ZONES, "values": ["b", "a"]}], field="requirements")
    assert [one.values for one in read] == [("a", "b"), ("b", "a")]


def test_each_fault_names_its_own_field() -> None:
    raw = {**ZONES, "operator": "Near"}
    assert "first.operator" in faults(raw, "first")
    assert "second.operator" in faults(raw, "second")


def test_true_is_no_number_although_one_was_read() -> None:
    parse_expression({**ZONES, "minValues": 1}, "requirements[0]")
    assert "requirements[1].minValues" in faults({**ZONES, "minValues": True}, "requirements[1]")


def test_an_operator_of_pools_stays_refused_in_selectors() -> None:
    raw = {"key": "cores", "operator": "Gt", "values": ["4"]}
    parse_expression(raw, "requirements[0]")
    with pytest.raises(InvalidObject, match="unknown operator"):
        parse_expression(raw, "matchExpressions[0]", SELECTOR_OPERATORS)


def test_lists_too_long_to_keep_are_read_too() -> None:
    names = [f"m{number}.large" for number in range(600)]
    read = parse_expression({**ZONES, "values": names}, "requirements[0]")
    assert read.values == tuple(names)
