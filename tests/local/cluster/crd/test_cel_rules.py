"""Errors in rules are reported when the definition is stored, with their field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local.cluster.crd.cel_rules import compile_rules

TEXT = {"type": "string"}


def schema(*rules: Any, **more: Any) -> dict[str, Any]:
    """A root with ``spec``, whose rules are these."""
    listed = {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}}
    keyed = {
        **listed,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["a"],
    }
    spec = {
        "type": "object",
        "properties": {
            "a": TEXT,
            "b-c": TEXT,
            "listed": listed,
            "keyed": keyed,
            "tags": {"type": "object", "additionalProperties": TEXT},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            **more,
        },
        "x-kubernetes-validations": list(rules),
    }
    copied: dict[str, Any] = json.loads(
        json.dumps({"type": "object", "properties": {"spec": spec}})
    )
    return copied


def mistakes(document: dict[str, Any]) -> list[Any]:
    return compile_rules(document, "schema")[1]


AT = "schema.properties[spec].x-kubernetes-validations[0]"


@pytest.mark.parametrize(
    "rule",
    [
        "self.a == 'self.x' || self.b__dash__c == ''",
        "self.listed.all(x, x.a != '') && self.listed[0].a == ''",
        "self.tags.all(k, k.startsWith('x')) && self.tags.anything == ''",
        "has(self.free.anything) && self.a.size() < 9",
        "oldSelf.a == self.a && type(self.a) == string",
        "quantity(self.a).isGreaterThan(quantity('1')) && optional.none().orValue(true)",
    ],
)
def test_a_good_rule_is_taken(rule: str) -> None:
    assert mistakes(schema({"rule": rule})) == []


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("self ==", "compilation failed: ERROR: <input>:1:8: Syntax error"),
        ("self.a == other", "undeclared reference to 'other'"),
        ("self.a.reversed() == ''", "undeclared reference to 'reversed'"),
        ("self.listed.all(i, x, true)", "undeclared reference to 'all'"),
        ("self.x == 1", "undefined field 'x'"),
        ("has(self.a) && self.a.x == 1", "undefined field 'x'"),
        ("self.?a.orValue('') == ''", "unsupported syntax '.?'"),
        ("[" * 500, "compilation failed"),
    ],
)
def test_a_rule_with_a_mistake_is_refused_at_its_field(rule: Any, why: str) -> None:
    error = mistakes(schema({"rule": rule}))[0]
    assert (error.field, error.reason) == (f"{AT}.rule", "FieldValueInvalid")
    assert why in error.message


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"rule": ""}, "rule"),
        ({"rule": " "}, "rule"),
        ({"messageExpression": "self +"}, "messageExpression"),
        ({"message": "a\nb"}, "message"),
        ({"reason": "Because"}, "reason"),
        ({"fieldPath": ".x"}, "fieldPath"),
        ({"fieldPath": "a"}, "fieldPath"),
        ({"fieldPath": ".a.x"}, "fieldPath"),
    ],
)
def test_every_field_of_a_rule_is_checked(more: dict[str, Any], field: str) -> None:
    (error,) = mistakes(schema({"rule": "true", **more}))
    assert error.field == f"{AT}.{field}"


@pytest.mark.parametrize("rules", [{"rule": "true"}, "true", 7])
def test_rules_that_are_no_list_are_refused(rules: Any) -> None:
    document = {"type": "object", "x-kubernetes-validations": rules}
    assert [error.field for error in mistakes(document)] == ["schema.x-kubernetes-validations"]


@pytest.mark.parametrize("rule", ["true", None, {"rule": 7}, {"rule": "true", "message": 7}])
def test_an_entry_of_another_shape_is_refused(rule: dict[str, Any] | str | None) -> None:
    assert [error.field for error in mistakes(schema(rule))] == [AT]


@pytest.mark.parametrize(("name", "accepted"), [("listed", False), ("keyed", True)])
def test_a_transition_rule_needs_a_list_with_keys(name: str, accepted: bool) -> None:
    """An entry of a list without keys has no old value, so the rule would never run."""
    document = schema()
    entry = document["properties"]["spec"]["properties"][name]["items"]
    entry["x-kubernetes-validations"] = [{"rule": "self == oldSelf"}]
    errors = mistakes(document)
    assert (not errors) is accepted
    below = f"schema.properties[spec].properties[{name}].items.x-kubernetes-validations[0].rule"
    assert accepted or errors[0].field == below


def test_of_metadata_the_root_sees_the_name_only() -> None:
    rules = [{"rule": "self.metadata.name != ''"}, {"rule": "size(self.metadata.labels) < 3"}]
    document = {"type": "object", "x-kubernetes-validations": rules}
    assert [error.field for error in mistakes(document)] == [
        "schema.x-kubernetes-validations[1].rule"
    ]
