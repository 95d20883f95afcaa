"""Whatever stands in a Provisioner, the reader says what is wrong with it and goes on (P-01..P-24)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from shared.api.v1alpha5.provisioners import (
    inline_template,
    parse_provisioner,
)
from shared.domain.records import decode_record
from tests.shared.api.conftest import json_values, objects
from tests.shared.api.documents.provisioners import (
    assert_comes_back,
    faults_of,
    provisioner,
)

WORDS = (
    "labels", "annotations", "taints", "startupTaints", "requirements", "kubeletConfiguration",
    "provider", "providerRef", "ttlSecondsAfterEmpty", "ttlSecondsUntilExpired", "limits",
    "resources", "weight", "consolidation", "enabled", "key", "value", "effect", "operator",
    "values", "In", "Gt", "NoSchedule", "cpu", "name", "minValues",
)  # fmt: skip


@given(objects(*WORDS), json_values(*WORDS))
def test_no_provisioner_stops_the_reader(spec: dict[str, Any], status: object) -> None:
    """F27: faults, or a pool that survives the mirror and comes back from the document made of it."""
    found = parse_provisioner({**provisioner(**spec), "status": status})
    if found.record is not None:
        assert decode_record("nodepools", msgspec.json.encode(found.record)) == found.record
        assert_comes_back(found.record)


@given(json_values(*WORDS), json_values(*WORDS))
def test_no_spec_of_any_type_stops_the_reader(spec: object, metadata: object) -> None:
    """F27: faulty objects."""
    raw = {"metadata": metadata, "spec": spec}
    assert parse_provisioner(raw).faults
    inline_template(raw)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"weight": float("nan")}, "spec.weight"),
        ({"weight": float("inf")}, "spec.weight"),
        ({"ttlSecondsAfterEmpty": -1}, "spec.ttlSecondsAfterEmpty"),
        ({"ttlSecondsUntilExpired": 10**18}, "spec.ttlSecondsUntilExpired"),
        ({"limits": {"resources": {"cpu": float("1e400")}}}, "spec.limits.resources.cpu"),
        ({"limits": {"resources": {"cpu": "4E"}}}, "spec.limits.resources.cpu"),
        ({"limits": {"resources": {"memory": -1}}}, "spec.limits.resources.memory"),
        ({"labels": {"team": "x" * 2**20}}, "spec.labels.team"),
        ({"labels": {1: "x"}}, "spec.labels[1]"),
        ({"labels": {"team": "\u05d0\u05d1"}}, "spec.labels.team"),
        ({"labels": {"team": "\ud800"}}, "spec.labels.team"),
        ({"labels": {f"k{i}": "v" for i in range(10_000)}}, "spec.labels"),
        ({"requirements": [{"key": "k", "operator": "Exists"}] * 10_000}, "spec.requirements"),
        ({"providerRef": {"name": "x" * 2**20}}, "spec.providerRef.name"),
    ],
)
def test_what_is_out_of_all_proportion_is_refused_with_its_field(
    spec: dict[str, Any], field: str
) -> None:
    assert {fault.partition(": ")[0] for fault in faults_of(**spec)} == {field}
