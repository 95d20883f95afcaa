"""A pool written as a Provisioner, and read again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shared.api.schema.v1alpha5.provisioner import Provisioner
from shared.api.v1alpha5.provisioners import (
    parse_provisioner,
    provisioner_object,
    with_defaults,
)
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import BALANCED, WHEN_UNDERUTILIZED, Budget, NodePool
from tests.shared.api.documents.provisioners import (
    own_words,
    pool_of,
)


def test_a_full_pool_comes_back_from_its_document() -> None:
    pool = pool_of(
        labels={"team": "blue", keys.ARCH: "arm64"},
        annotations={"note": "x"},
        taints=[{"key": "a", "effect": "NoSchedule"}],
        startupTaints=[{"key": "b", "value": "c", "effect": "NoExecute"}],
        requirements=[{"key": "example.com/x", "operator": "NotIn", "values": ["1"]}],
        kubeletConfiguration={"maxPods": 20, "kubeReserved": {"cpu": 1, "memory": "1Gi"}},
        limits={"resources": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 2}},
        ttlSecondsUntilExpired=100,
        consolidation={"enabled": True},
        weight=7,
    )
    written = provisioner_object(pool)
    assert written.notes == ()
    assert parse_provisioner(written.document).record == own_words(pool)
    assert Provisioner.model_validate(written.document)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"replicas": 3}, "spec.replicas"),
        ({"budgets": (Budget("10%"),)}, "spec.disruption.budgets"),
        ({"termination_grace_seconds": 5.0}, "spec.terminationGracePeriod"),
        ({"limits": {"nodes": 5}}, "spec.limits.nodes"),
        ({"consolidation_policy": BALANCED}, "spec.disruption.consolidationPolicy"),
        ({"consolidate_after_seconds": 5.0}, "spec.disruption.consolidateAfter"),
        ({"consolidate_after_seconds": None}, "spec.disruption.consolidateAfter"),
        ({"expire_seconds": 5.0}, "spec.expireAfter"),
        ({"labels": {"kubernetes.io/free-in-v1": "x"}}, "spec.labels[kubernetes.io/free-in-v1]"),
    ],
)
def test_what_only_v1_can_say_is_noted(change: dict[str, Any], field: str) -> None:
    """MAP-02, MAP-04: what the other generation cannot say."""
    pool = NodePool(
        **{
            "uid": "",
            "name": "one",
            "generation_api": V1,
            "node_class": "default",
            "requirements": with_defaults((), {}),
            "consolidation_policy": WHEN_UNDERUTILIZED,
            "consolidate_after_seconds": 0.0,
            **change,
        }
    )
    (note,) = provisioner_object(pool).notes
    assert str(note).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("expression", "written"),
    [
        (Expression("k", "Gte", ("5",)), {"key": "k", "operator": "Gt", "values": ["4"]}),
        (Expression("k", "Gte", ("0",)), {"key": "k", "operator": "Exists"}),
        (Expression("k", "Lte", ("5",)), {"key": "k", "operator": "Lt", "values": ["6"]}),
        (
            Expression("k", "In", ("a", "b"), 2),
            {"key": "k", "operator": "In", "values": ["a", "b"]},
        ),
    ],
)
def test_requirements_of_v1_are_written_as_near_as_possible(
    expression: Expression, written: dict[str, Any]
) -> None:
    """P-05 knows six operators, and no minValues; what differs is noted."""
    pool = msgspec.structs.replace(pool_of(), requirements=with_defaults((expression,), {}))
    made = provisioner_object(pool)
    assert made.document["spec"]["requirements"][0] == written
    (note,) = made.notes
    assert str(note).startswith("spec.requirements[0]")
    assert parse_provisioner(made.document).record is not None


def test_what_a_pool_leaves_open_is_not_narrowed_by_defaults() -> None:
    """P-19: v1 has no defaults; a Provisioner that says nothing would buy amd64 on demand only."""
    pool = msgspec.structs.replace(pool_of(), requirements=())
    made = provisioner_object(pool)
    again = parse_provisioner(made.document).require("pool")
    assert {one.operator for one in again.requirements} == {"Exists"}
    assert len(made.notes) == len(again.requirements) == 4


def test_the_hash_follows_what_nodes_are_made_with() -> None:
    """NP-19 in the words of v1alpha5: lists are sets, and requirements, limits and lifetimes do not count."""
    first, second = ({"key": key, "effect": "NoSchedule"} for key in ("a", "b"))
    said = pool_of(taints=[first, second])
    assert pool_of(taints=[second, first], weight=5, ttlSecondsAfterEmpty=1).hash == said.hash
    assert pool_of(taints=[first, second], requirements=[]).hash == said.hash
    assert pool_of(taints=[first]).hash != said.hash
    assert pool_of(taints=[first, second], kubeletConfiguration={"maxPods": 1}).hash != said.hash
