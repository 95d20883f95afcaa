"""Rules validate the value at their node: their variables, evaluation and messages."""

from __future__ import annotations

from typing import Any

import pytest

from local.cluster.crd.cel import ABSENT, broken_rules
from local.cluster.crd.cel_rules import compile_rules

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def broken(
    rules: list[dict[str, Any]], value: Any, old: Any = ABSENT, **schema: Any
) -> list[tuple[str, str]]:
    """(field, message) of every rule that ``spec`` breaks when it replaces ``old``."""
    spec = {"type": "object", "x-kubernetes-validations": rules, **schema}
    root = {"type": "object", "properties": {"spec": spec}}
    node, errors = compile_rules(root, "")
    assert not errors
    assert node is not None
    before = old if old is ABSENT else {"spec": old}
    return [(e.field, e.message) for e in broken_rules(node, {"spec": value}, before)]


PAIR = {"properties": {"a": NUMBER, "b": NUMBER}}
ORDERED = {"rule": "self.a <= self.b", "message": "a must not exceed b"}


def test_a_broken_rule_is_reported_in_the_form_of_a_real_server() -> None:
    assert broken([ORDERED], {"a": 2, "b": 1}, **PAIR) == [
        ("spec", 'Invalid value: "object": a must not exceed b')
    ]
    assert broken([ORDERED], {"a": 1, "b": 1}, **PAIR) == []


def test_without_a_message_the_rule_itself_is_said() -> None:
    assert broken([{"rule": "self.a <= self.b"}], {"a": 2, "b": 1}, **PAIR) == [
        ("spec", 'Invalid value: "object": failed rule: self.a <= self.b')
    ]


def test_a_rule_without_a_value_is_broken_with_the_reason() -> None:
    assert broken([ORDERED], {"a": 2}, **PAIR) == [
        ("spec", 'Invalid value: "object": no such key: b evaluating rule: a must not exceed b')
    ]


def test_a_rule_that_is_no_condition_is_broken() -> None:
    ((_, message),) = broken([{"rule": "self.a + 1"}], {"a": 2}, **PAIR)
    assert message == 'Invalid value: "object": must be true or false: self.a + 1'


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("'%d is more than %d'.format([self.a, self.b])", "2 is more than 1"),
        ("self.a / 0", "a must not exceed b"),
        ("''", "a must not exceed b"),
        ("'a\\nb'", "a must not exceed b"),
        ("7", "a must not exceed b"),
    ],
)
def test_a_message_expression_replaces_the_message_unless_it_is_empty(
    expression: str, said: str
) -> None:
    rule = {**ORDERED, "messageExpression": expression}
    ((_, message),) = broken([rule], {"a": 2, "b": 1}, **PAIR)
    assert message == f'Invalid value: "object": {said}'


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"fieldPath": ".a"}, ("spec.a", 'Invalid value: "object": no')),
        ({"reason": "FieldValueForbidden"}, ("spec", "Forbidden: no")),
        ({"reason": "FieldValueRequired"}, ("spec", "Required value: no")),
        ({"reason": "FieldValueDuplicate"}, ("spec", 'Duplicate value: "object"')),
    ],
)
def test_field_path_and_reason_shape_the_fault(
    more: dict[str, Any], expected: tuple[str, ...]
) -> None:
    rule = {"rule": "false", "message": "no", **more}
    assert broken([rule], {"a": 1}, **PAIR) == [expected]


def test_a_field_path_may_lead_to_a_map_key() -> None:
    tags = {"type": "object", "additionalProperties": TEXT}
    rule = {"rule": "false", "message": "no", "fieldPath": ".tags['a/b']"}
    ((field, _),) = broken([rule], {}, properties={"tags": tags})
    assert field == "spec.tags[a/b]"


def test_rules_below_properties_entries_and_map_values_name_their_place() -> None:
    short = {"type": "string", "x-kubernetes-validations": [{"rule": "size(self) < 3"}]}
    properties = {
        "name": short,
        "names": {"type": "array", "items": short},
        "tags": {"type": "object", "additionalProperties": short},
    }
    value = {"name": "long", "names": ["a", "long"], "tags": {"x/y": "long", "z": "a"}}
    assert broken([], value, properties=properties) == [
        (field, 'Invalid value: "string": failed rule: size(self) < 3')
        for field in ("spec.name", "spec.names[1]", "spec.tags[x/y]")
    ]


def test_property_names_are_escaped_and_map_keys_are_not() -> None:
    properties: dict[str, Any] = {
        name: NUMBER for name in ("a-b", "a.b", "a/b", "a__b", "namespace", "in", "max-pods.x")
    }
    properties["tags"] = {"type": "object", "additionalProperties": TEXT}
    rule = (
        "self.a__dash__b == 1 && self.a__dot__b == 1 && self.a__slash__b == 1 && "
        "self.a__underscores__b == 1 && self.__namespace__ == 1 && self.__in__ == 1 && "
        "self.max__dash__pods__dot__x == 1 && self.tags['a-b'] == 'x' && 'a/b' in self.tags"
    )
    value = dict.fromkeys(properties, 1) | {"tags": {"a-b": "x", "a/b": "y"}}
    assert broken([{"rule": rule}], value, properties=properties) == []


def test_values_have_the_types_of_their_schema() -> None:
    """A whole number in a ``number`` field is a double; a date and a duration can be compared."""
    properties = {
        "price": {"type": "number"},
        "count": NUMBER,
        "when": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "text": {"type": "string", "format": "date-time"},
        "size": {"x-kubernetes-int-or-string": True},
    }
    rule = (
        "self.price * 0.5 == 1.0 && self.count + 1 == 4 && self.wait > duration('59m') && "
        "self.when < timestamp('2021-01-01T00:00:00Z') && self.text == 'never' && "
        "(type(self.size) == int ? self.size == 1 : self.size == '1')"
    )
    value = {"price": 2, "count": 3.0, "wait": "1h", "when": "2020-01-01T00:00:00Z"}
    value |= {"text": "never", "size": "1"}
    assert broken([{"rule": rule}], value, properties=properties) == []


def test_null_counts_as_absent() -> None:
    assert broken([{"rule": "!has(self.a)"}], {"a": None}, **PAIR) == []


GROWS = {"rule": "self.a >= oldSelf.a", "message": "a may only grow"}


def test_a_transition_rule_waits_for_an_old_value() -> None:
    assert broken([GROWS], {"a": 1}, **PAIR) == []
    assert broken([GROWS], {"a": 1}, None, **PAIR) == []
    assert broken([GROWS], {"a": 2}, {"a": 1}, **PAIR) == []
    assert [message for _, message in broken([GROWS], {"a": 1}, {"a": 2}, **PAIR)] == [
        'Invalid value: "object": a may only grow'
    ]


def test_an_optional_old_value_lets_the_rule_run_on_create_too() -> None:
    rule = {"rule": "oldSelf.hasValue() || self.a == 0", "optionalOldSelf": True}
    assert len(broken([rule], {"a": 1}, **PAIR)) == 1
    assert broken([rule], {"a": 1}, {"a": 0}, **PAIR) == []


def test_a_value_that_an_update_leaves_as_it_is_is_not_judged_again() -> None:
    """Ratcheting: an object older than its rules can still be labelled, and its other fields changed."""
    properties = {
        "name": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'old'"}]},
        "a": NUMBER,
    }
    old = {"name": "old", "a": 1}
    assert broken([], {"name": "old", "a": 2}, old, properties=properties) == []
    assert len(broken([], {"name": "old"}, properties=properties)) == 1


def test_map_values_and_keyed_entries_have_old_values() -> None:
    fixed = [{"rule": "self == oldSelf", "message": "is fixed"}]
    entry = {"type": "object", "properties": {"k": TEXT, "v": NUMBER}}
    properties = {
        "tags": {
            "type": "object",
            "additionalProperties": {"type": "integer", "x-kubernetes-validations": fixed},
        },
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {**entry, "x-kubernetes-validations": fixed},
        },
    }
    old = {"tags": {"a": 1}, "keyed": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}
    moved = {"tags": {"a": 1, "new": 5}, "keyed": [{"k": "new"}, {"k": "b", "v": 2}]}
    assert broken([], moved, old, properties=properties) == []
    changed = {"tags": {"a": 2}, "keyed": [{"k": "b", "v": 3}]}
    fields = [field for field, _ in broken([], changed, old, properties=properties)]
    assert fields == ["spec.tags[a]", "spec.keyed[0]"]


def test_a_rule_of_the_whole_object_sees_its_name_and_has_no_path() -> None:
    schema = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.metadata.name == 'default'"}],
    }
    node, _ = compile_rules(schema, "")
    assert node is not None
    document = {"metadata": {"name": "other", "labels": {}}}
    assert [error.field for error in broken_rules(node, document)] == ["<nil>"]


def test_a_schema_without_rules_has_no_tree() -> None:
    assert compile_rules({"type": "object", "properties": {"a": TEXT}}, "") == (None, [])
