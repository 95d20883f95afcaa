"""Structural schemas: what is not looked at value by value is judged as if it were."""

from __future__ import annotations

from typing import Any

import jsonschema
from hypothesis import example, given
from hypothesis import strategies as st

from local.cluster.schemas import Validator, field_path, prune, translated, with_defaults

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
