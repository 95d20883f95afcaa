"""Structural schemas: what is not looked at value by value is judged as if it were."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from local.cluster.crd.schemas import Validator, field_path, prune, translated, with_defaults

TEXTS = {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]*$"}
ITEMS = st.fixed_dictionaries(
    {}, optional={**{name: st.just(rule) for name, rule in TEXTS.items()}, "enum": st.just(["a"])}
)
VALUES = st.lists(st.one_of(st.text("abAB", max_size=7), st.integers(), st.none()), max_size=6)


def schema_of(items: dict[str, Any]) -> dict[str, Any]:
    listed = {"type": "array", "items": items}
    spec = {"type": "object", "properties": {"values": listed}, "required": ["values"]}
    return {"type": "object", "properties": {"spec": spec}, "required": ["spec"]}


def document(values: object) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"values": values}}


@given(ITEMS, VALUES)
@example({"type": "string", "enum": ["a"]}, [-(2**63) - 1])
def test_a_list_of_texts_has_the_faults_that_each_of_its_values_has(
    items: dict[str, Any], values: list[Any]
) -> None:
    """A machine names 600 types: right ones are seen at a glance, wrong ones are named."""
    schema, written = schema_of(items), document(values)
    slowly = jsonschema.Draft202012Validator(translated(schema))
    wanted = sorted(field_path(fault.absolute_path) for fault in slowly.iter_errors(written))
    found = [one for one in Validator(schema).errors(written) if one.field]
    assert sorted(one.field for one in found if one.field.startswith("spec")) == wanted


def test_what_an_update_leaves_as_it_is_is_not_refused_and_what_it_changes_is() -> None:
    """Ratcheting: an object older than its schema can still be labelled and deleted."""
    checker = Validator(schema_of(TEXTS))
    old = document(["TOO LONG"])
    labelled = {**old, "metadata": {"name": "a", "labels": {"a": "b"}}}
    assert checker.errors(labelled, old) == []
    (fault, *_) = checker.errors(document(["STILL TOO LONG"]), old)
    assert fault.field == "spec.values[0]"
    (gone,) = (one for one in checker.errors({"metadata": {}}, old) if one.field == "spec")
    assert gone.reason == "FieldValueRequired"


def test_lists_of_plain_values_are_kept_and_objects_in_lists_are_pruned_and_filled() -> None:
    """apiextensions' pruning and defaulting."""
    entry = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
    schema = {"properties": {"plain": {"type": "array"}, "rich": {"items": entry}}}
    written = {"plain": ["a", 1, None], "rich": [{"b": "unknown"}]}
    kept, lost = prune(written, schema)
    assert (kept, lost) == ({"plain": ["a", 1, None], "rich": [{}]}, ["rich[0].b"])
    assert with_defaults(kept, schema)["rich"] == [{"a": "x"}]


@pytest.mark.parametrize(
    ("part", "written", "stored"),
    [
        ({"type": "string"}, {"a": None}, {}),
        ({"type": "string", "default": "x"}, {"a": None}, {"a": "x"}),
        ({"type": "string", "nullable": True}, {"a": None}, {"a": None}),
        ({"type": "string", "nullable": True, "default": "x"}, {"a": None}, {"a": None}),
        ({"type": "string", "nullable": True, "default": "x"}, {}, {"a": "x"}),
        ({"type": "array", "items": {"type": "string"}}, {"a": [None]}, {"a": [None]}),
    ],
)
def test_a_null_that_the_schema_does_not_allow_counts_as_missing(
    part: dict[str, Any], written: dict[str, Any], stored: dict[str, Any]
) -> None:
    """A real server drops it before defaults and rules; so a required field that is null is missing."""
    schema = {"type": "object", "properties": {"a": part}, "required": ["a"]}
    assert with_defaults(written, schema) == stored
    faults = [one.reason for one in Validator(schema).errors(stored)]
    assert ("FieldValueRequired" in faults) == ("a" not in stored)


def test_nulls_are_dropped_from_maps_and_kept_where_anything_may_be() -> None:
    labels = {"additionalProperties": {"type": "string"}}
    free = {"additionalProperties": True}
    schema = {"properties": {"labels": labels, "free": free, "status": {"nullable": False}}}
    written = {"labels": {"a": None, "b": "c"}, "free": {"a": None}, "status": None}
    assert with_defaults(written, schema) == {"labels": {"b": "c"}, "free": {"a": None}}
