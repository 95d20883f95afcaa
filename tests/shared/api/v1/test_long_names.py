"""Names of pools and node classes are values of labels of their machines, so they have the length of such a value."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.registry import check
from shared.api.v1.ec2_node_classes import parse_ec2_node_class
from shared.api.v1.node_pools import parse_node_pool
from tests.shared.api.documents.node_classes import LEAST

LONGEST, TOO_LONG = "p" * 63, "p" * 64
TOLD = "has 64 characters, and a label of every machine holds it; use at most 63"


def pool(name: str, node_class: str = "default") -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class}
    spec = {"template": {"spec": {"requirements": [], "nodeClassRef": reference}}}
    api = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool"}
    return {**api, "metadata": {"name": name}, "spec": spec}


def provisioner(name: str) -> dict[str, Any]:
    api = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner"}
    return {**api, "metadata": {"name": name}, "spec": {"providerRef": {"name": "default"}}}


def node_class(name: str) -> dict[str, Any]:
    api = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass"}
    return {**api, "metadata": {"name": name}, "spec": LEAST}


@pytest.mark.parametrize("make", [pool, provisioner, node_class])
def test_validate_refuses_a_name_that_no_label_can_hold(make: Any) -> None:
    """NP-21: such a pool is left out; the API server would refuse each of its machines."""
    assert [str(fault) for fault in check(make(TOO_LONG))] == [f"metadata.name: {TOLD}"]
    assert check(make(LONGEST)) == []


def test_a_pool_whose_class_has_such_a_name_is_refused_too() -> None:
    """NP-21: the pool says it in its conditions, and pods say why the pool cannot be used."""
    faults = parse_node_pool(pool("default", TOO_LONG)).faults
    assert [str(fault) for fault in faults] == [f"spec.template.spec.nodeClassRef.name: {TOLD}"]
    assert parse_node_pool(pool(LONGEST, LONGEST)).faults == ()


def test_a_class_with_such_a_name_is_not_ready() -> None:
    """NP-21: the class is refused before AWS is asked."""
    parsed = parse_ec2_node_class(node_class(TOO_LONG))
    assert parsed.record is None
    assert [str(fault) for fault in parsed.faults] == [f"metadata.name: {TOLD}"]
