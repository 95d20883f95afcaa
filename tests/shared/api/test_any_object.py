"""Objects of every kind as nobody should write them: read or refused, and each refusal names a field (F27, F28)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.watcher.conversion import KINDS as WATCHED
from shared.api.crd.definitions import root_schema
from shared.api.faults import field_text
from shared.api.parsers import SCHEMAS, schema_of
from shared.api.registry import check, warnings
from shared.api.v1.node_overlays import parse_node_overlay
from shared.errors import InvalidObject

PER_CHANGE, NIGHTLY = 25, 10_000
PARSERS: dict[str, Any] = {kind.resource.kind: kind.convert for kind in WATCHED}
PARSERS["NodeOverlay"] = parse_node_overlay
META = {"name": "one", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}

hostile: st.SearchStrategy[Any] = st.sampled_from(
    [
        None, True, -1, 0, 10**18, 2**70, float("nan"), float("inf"), 1e300, "", " ", "1e400", "-1", "NaN", "Never",
        "10%", "720h", "99999999999999999999h", "مرحبا\u202e", "\u0000", "\ud800", "a" * 2**20, "ami-",
        "*", "$(reboot)",
        [], {}, [None], [[]], {"": None}, ["a"] * 10_000,
        [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}] * 10_000,
    ]
)  # fmt: skip
"""NaN, numbers beyond every limit, 1 MiB of text, 10,000 entries, right-to-left, half a surrogate pair, nulls."""


def near(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Mostly what the schema wants, often something hostile in its place."""
    return st.one_of(_right(schema), _right(schema), hostile)


def _right(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "properties" in schema:
        return _object(schema["properties"])
    if schema.get("type") == "array":
        return st.lists(near(schema["items"]), max_size=3)
    if isinstance(schema.get("additionalProperties"), Mapping):
        keys = st.sampled_from(
            ["cpu", "team", "karpenter.sh/discovery", "kubernetes.io/x", "", "Name"]
        )
        return st.dictionaries(keys, near(schema["additionalProperties"]), max_size=3)
    return _scalar(schema)


def _object(properties: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    fields = {name: near(part) for name, part in properties.items()}
    return st.fixed_dictionaries({}, optional=fields)


def _scalar(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    words = st.sampled_from(
        ["default", "1", "100m", "1Gi", "30s", "2", "al2023@latest", "subnet-1"]
    )
    if schema.get("type") == "integer":
        return st.integers(-1, 200)
    if schema.get("type") == "boolean":
        return st.booleans()
    return st.one_of(words, st.integers(0, 9)) if "type" not in schema else words


def assert_read_or_refused(kind: str, document: dict[str, Any]) -> None:
    """Nothing is raised, every fault names a field and says something, and what passes the check is read."""
    faults = check(document)
    assert all(str(fault).strip() and fault.message for fault in faults)
    assert all(fault.path for fault in faults), faults
    warnings(document)
    if kind not in PARSERS:
        return
    parsed = PARSERS[kind](document)
    assert (parsed.record is None) == bool(parsed.faults)
    assert all(field_text(fault.path) for fault in parsed.faults)
    if not faults and "status" not in document:  # what is judged of a file is not its status
        assert parsed.record is not None, parsed.faults


def documents(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects as an API server may return them, with any spec and status."""
    model = schema_of((VERSIONS[kind], kind))
    assert model is not None
    properties = root_schema(model)["properties"]
    return st.fixed_dictionaries(
        {
            "apiVersion": st.just(model.INFO.api_version),
            "kind": st.just(kind),
            "metadata": st.just(META),
            "spec": near(properties["spec"]),
        },
        optional={"status": near(properties.get("status", {}))},
    )


VERSIONS = {kind: version for version, kind in reversed(SCHEMAS)}
"""Kind -> the version that is stored: the first of each kind."""
ALL = sorted(VERSIONS)
FREE: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_an_object_is_read_or_refused(kind: str) -> None:
    @settings(max_examples=PER_CHANGE, **FREE)
    @given(documents(kind))
    def holds(document: dict[str, Any]) -> None:
        assert_read_or_refused(kind, document)

    holds()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ALL)
def test_ten_thousand_objects_are_read_or_refused(kind: str) -> None:
    @settings(max_examples=NIGHTLY, **FREE)
    @given(documents(kind))
    def holds(document: dict[str, Any]) -> None:
        assert_read_or_refused(kind, document)

    holds()


@pytest.mark.parametrize("kind", ALL)
def test_annotations_of_a_megabyte_and_nulls_everywhere_are_refused_or_read(kind: str) -> None:
    huge = {**META, "annotations": {"a": "x" * 2**20}, "labels": None, "finalizers": None}
    version = VERSIONS[kind]
    specs: tuple[Any, ...] = (None, {}, [], "x", 1)
    for spec in specs:
        document = {
            "apiVersion": version,
            "kind": kind,
            "metadata": huge,
            "spec": spec,
            "status": None,
        }
        assert check(document) or spec == {} or spec is None
        if kind in PARSERS:
            try:
                PARSERS[kind](json.loads(json.dumps(document)))
            except InvalidObject as error:
                pytest.fail(str(error))
