"""Annotations of a pool that choose how it is packed, and what is done about interruptions (INT-40, INT-43)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.core.metadata import POOL_CHOICES, choice_faults, pool_metadata, read_metadata
from shared.api.v1.node_pools import node_pool_object, parse_node_pool
from shared.api.v1alpha5.provisioners import parse_provisioner, provisioner_object
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import NodePool

SAID = [
    ("dovetail.sh/interruption", "cordon", "interruption", "cordon"),
    ("dovetail.sh/interruption", "dry-run", "interruption", "dry-run"),
    ("dovetail.sh/rebalance", "drain", "rebalance", "drain"),
    ("dovetail.sh/rebalance", "off", "rebalance", "off"),
    ("dovetail.sh/maintenance-lead", "36h", "maintenance_lead_seconds", 129_600.0),
    ("dovetail.sh/maintenance-lead", "0", "maintenance_lead_seconds", 0.0),
    ("dovetail.sh/webhook", "off", "webhook_off", True),
    ("dovetail.sh/webhook", "on", "webhook_off", False),
    ("dovetail.sh/packing", "Balanced", "packing", "Balanced"),
    ("dovetail.sh/node-price", "0", "node_price", 0),
    ("dovetail.sh/node-price", "0.02", "node_price", 20_000),
    ("dovetail.sh/node-price", "999.999999", "node_price", 999_999_999),
]


def raw(annotation: str, value: str) -> dict[str, Any]:
    return {"metadata": {"name": "p", "annotations": {annotation: value}}}


@pytest.mark.parametrize(("annotation", "value", "field", "expected"), SAID)
def test_a_choice_is_read_and_survives_being_written(
    annotation: str, value: str, field: str, expected: object
) -> None:
    choices = read_metadata(raw(annotation, value)).choices
    assert choices == {field: expected}
    written = pool_metadata(NodePool(uid="", name="p", **choices))
    assert read_metadata({"metadata": written}).choices in (choices, {})
    assert choice_faults(raw(annotation, value)) == ()


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("dovetail.sh/interruption", "dryrun"),
        ("dovetail.sh/rebalance", "Drain"),
        ("dovetail.sh/maintenance-lead", "1d"),
        ("dovetail.sh/maintenance-lead", "721h"),
        ("dovetail.sh/webhook", "yes"),
        ("dovetail.sh/node-price", "$0.02"),
        ("dovetail.sh/node-price", "-1"),
        ("dovetail.sh/node-price", "1e3"),
        ("dovetail.sh/node-price", "1000"),
        ("dovetail.sh/node-price", "nan"),
    ],
)
def test_a_choice_that_there_is_not_is_refused_by_name(annotation: str, value: str) -> None:
    (fault,) = choice_faults(raw(annotation, value))
    assert annotation in str(fault)


def test_a_wrong_node_price_is_told_with_the_fix_and_both_generations_read_a_right_one() -> None:
    (fault,) = choice_faults(raw("dovetail.sh/node-price", "2 cents"))
    assert str(fault) == (
        "metadata.annotations[dovetail.sh/node-price]: '2 cents' is not a price in US dollars per hour below 1000, "
        "such as 0.02"
    )
    pool = NodePool(uid="", name="p", generation_api=V1, node_class="d", node_price=20_000)
    old = parse_provisioner(provisioner_object(pool).document).require("pool")
    new = parse_node_pool(node_pool_object(old).document).require("pool")
    assert (old.node_price, new.node_price) == (20_000, 20_000)


def test_without_annotations_a_pool_chooses_nothing() -> None:
    """Off by default."""
    fresh = NodePool(uid="", name="p")
    assert pool_metadata(fresh) == {"name": "p"}
    assert len({choice.annotation for choice in POOL_CHOICES}) == len(POOL_CHOICES)
