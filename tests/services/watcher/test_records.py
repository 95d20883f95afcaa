"""Kubernetes objects to mirror records: a bad object is a fault of its own (F27)."""

from __future__ import annotations

from typing import Any

import pytest

from services.watcher.records import KINDS, object_key
from shared.domain.records import RECORD_TYPES

KIND = {kind.name: kind for kind in KINDS}
META = {
    "name": "one",
    "uid": "u",
    "namespace": "default",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
TEMPLATE = {"template": {"spec": {"containers": []}}}
SELECTORS = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
GOOD = {
    "pods": {"containers": []},
    "nodes": {},
    "daemonsets": TEMPLATE,
    "nodepools": {"providerRef": {"name": "default"}},
    "nodeclasses": SELECTORS,
    "machines": {},
}


def raw(spec: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": spec}


def test_every_record_type_has_its_kind() -> None:
    assert set(KIND) == set(RECORD_TYPES)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_good_object_becomes_the_record_of_its_kind(name: str) -> None:
    converted = KIND[name].convert(raw(GOOD[name]))
    assert converted.faults == ()
    assert isinstance(converted.record, RECORD_TYPES[name])


@pytest.mark.parametrize(
    ("name", "spec", "field"),
    [
        ("nodepools", {}, "spec.providerRef.name"),
        ("nodeclasses", {}, "spec.subnetSelector"),
        ("machines", {"resources": {"requests": {"cpu": "x"}}}, "spec.resources.requests.cpu"),
        ("daemonsets", {"template": {"spec": {"overhead": {"cpu": "x"}}}}, "spec.overhead.cpu"),
    ],
)
def test_a_bad_object_is_no_record_and_names_the_field(
    name: str, spec: dict[str, Any], field: str
) -> None:
    """F27: it is skipped, the others go on."""
    converted = KIND[name].convert(raw(spec))
    assert converted.record is None
    assert converted.faults[0].startswith(field)


def test_a_bad_pod_is_a_record_that_says_what_is_wrong() -> None:
    """POD-03."""
    converted = KIND["pods"].convert(raw({"overhead": {"cpu": "x"}}))
    assert converted.record is not None
    assert converted.record.faults  # type: ignore[attr-defined]


def test_only_what_scheduling_needs_travels() -> None:
    """No environment, no commands."""
    container = {"name": "c", "env": [{"name": "TOKEN", "value": "secret"}], "command": ["secret"]}
    record = KIND["pods"].convert(raw({"containers": [container]})).record
    assert "secret" not in repr(record)


def test_an_object_is_known_by_namespace_and_name() -> None:
    assert object_key({"metadata": {"namespace": "a", "name": "b"}}) == "a/b"
    assert object_key({"metadata": {"name": "b"}}) == "b"
