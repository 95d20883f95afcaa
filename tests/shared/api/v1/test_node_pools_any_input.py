"""NodePools of any content: what is written is read again, and nothing makes the reader raise."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.v1.node_pools import node_pool_object, warnings_of
from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import BALANCED, WHEN_EMPTY, Budget, NodePool
from tests.shared.api.conftest import document, json_values
from tests.shared.api.documents.node_pools import faults, parsed, pool_document

names = st.from_regex(r"[a-z]([a-z0-9]{0,5}[a-z0-9])?", fullmatch=True)
seconds = st.integers(0, 10**7).map(float)
taints = st.builds(
    Taint, names, st.sampled_from(["NoSchedule", "NoExecute"]), st.one_of(st.just(""), names)
)
some_names = st.lists(names, min_size=1, max_size=3).map(tuple)
bounds = st.integers(0, 2**62).map(lambda bound: (str(bound),))
expressions = st.one_of(
    st.builds(Expression, names, st.sampled_from(["In", "NotIn"]), some_names),
    st.builds(
        Expression,
        names,
        st.sampled_from(["Exists", "DoesNotExist"]),
        st.just(()),
        st.sampled_from([None, 1, 50]),
    ),
    st.builds(Expression, names, st.sampled_from(["Gt", "Gte", "Lt", "Lte"]), bounds),
)
budgets = st.builds(
    Budget,
    nodes=st.one_of(st.integers(0, 10**9).map(str), st.integers(0, 100).map("{}%".format)),
    reasons=st.lists(
        st.sampled_from(["Empty", "Drifted", "Underutilized"]), max_size=3, unique=True
    ).map(tuple),
    schedule=st.just("*/5 0-4 * * mon"),
    duration_seconds=st.integers(0, 10_000).map(lambda minutes: minutes * 60.0),
) | st.builds(Budget, nodes=st.just("10%"))
pools = st.builds(
    NodePool,
    uid=st.just("uid-1"),
    name=st.just("one"),
    generation_api=st.just(V1),
    node_class=names,
    requirements=st.lists(expressions, max_size=3).map(tuple),
    labels=st.dictionaries(names, names, max_size=3),
    annotations=st.dictionaries(names, st.text(max_size=20), max_size=3),
    taints=st.lists(taints, max_size=3, unique_by=lambda t: (t.key, t.effect)).map(tuple),
    limits=st.dictionaries(st.sampled_from(["cpu", "memory", "nodes", "example.com/x"]), st.integers(0, 2**40)),
    weight=st.integers(0, 100),
    expire_seconds=st.none() | seconds,
    consolidation_policy=st.sampled_from([WHEN_EMPTY, BALANCED]),
    consolidate_after_seconds=st.none() | seconds,
    budgets=st.lists(budgets, max_size=3).map(tuple),
    termination_grace_seconds=st.none() | seconds,
)  # fmt: skip


@given(pools)
def test_what_is_written_is_read_again(pool: NodePool) -> None:
    """The round trip law; the hash is made when a pool is read."""
    written = node_pool_object(pool)
    assert written.notes == ()
    raw = json.loads(json.dumps(written.document))
    raw["metadata"]["uid"] = pool.uid
    again = parsed(raw)
    assert msgspec.structs.replace(again, hash="") == pool
    assert parsed(node_pool_object(again).document).hash == again.hash


WORDS = (
    "template", "spec", "metadata", "labels", "annotations", "requirements", "key", "operator", "values", "In",
    "minValues", "taints", "startupTaints", "effect", "nodeClassRef", "group", "kind", "name", "expireAfter",
    "disruption", "budgets", "nodes", "schedule", "duration", "reasons", "limits", "cpu", "weight", "replicas",
    "resources", keys.CAPACITY_TYPE,
)  # fmt: skip


@given(json_values(*WORDS), json_values(*WORDS))
def test_any_document_is_judged_and_none_raises(spec: Any, other: Any) -> None:
    for raw in (
        document(spec, other),
        pool_document(spec, other if isinstance(other, dict) else None),
        pool_document(limits=spec, disruption=other),
        {"metadata": other, "spec": spec},
    ):
        faults(raw)
        warnings_of(raw)


HOSTILE = [
    float("nan"), float("inf"), -1, 10**400, "x" * 2**20, "\ud800", "‮abc", [None] * 10_000,
    {str(i): "x" for i in range(10_000)}, {1: 2, None: 3}, True,
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
def test_hostile_values_are_judged_in_every_place(value: Any) -> None:
    full = pool_document(
        {"labels": {"a": "b"}, "annotations": {"a": "b"}},
        {
            "requirements": [{"key": "x", "operator": "In", "values": ["a"], "minValues": 1}],
            "taints": [{"key": "a", "effect": "NoSchedule"}],
            "expireAfter": "1h",
        },
        {"resources": {"cpu": 1}},
        disruption={"budgets": [{"nodes": "1", "schedule": "@daily", "duration": "1h"}]},
        limits={"cpu": 1},
        weight=1,
    )
    for path in _paths(full):
        raw = copy.deepcopy(full)
        place = raw
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        faults(raw)
        warnings_of(raw)


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    found = [at] if at else []
    for step, inner in steps:
        found += _paths(inner, (*at, step))
    return found
