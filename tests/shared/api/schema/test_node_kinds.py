"""What the definitions of NodePool, NodeClaim and NodeOverlay tell an API server (NP-14, NC-01..NC-04, NO-01)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.crd.definitions import custom_resource_definition
from shared.api.crd.model import read
from shared.api.schema.kinds import Resource
from shared.api.schema.v1.node_claim import NodeClaim
from shared.api.schema.v1.node_overlay import NodeOverlay
from shared.api.schema.v1.node_pool import NodePool

REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def version(kind: type[Resource]) -> dict[str, Any]:
    (only,) = custom_resource_definition(kind)["spec"]["versions"]
    return dict(only)


def spec_schema(kind: type[Resource]) -> dict[str, Any]:
    return dict(version(kind)["schema"]["openAPIV3Schema"]["properties"]["spec"])


def rules(schema: dict[str, Any]) -> list[str]:
    return [rule["rule"] for rule in schema["x-kubernetes-validations"]]


def columns(kind: type[Resource], priority: int) -> list[str]:
    listed = version(kind)["additionalPrinterColumns"]
    return [column["name"] for column in listed if column.get("priority", 0) == priority]


@pytest.mark.parametrize(
    ("kind", "narrow", "wide"),
    [
        (NodePool, "NodeClass Nodes Ready Age", "Weight CPU Memory"),
        (NodeClaim, "Type Capacity Zone Node Ready Age", "ImageID ID NodePool NodeClass Drifted"),
        (NodeOverlay, "Ready Age", "Weight"),
    ],
)
def test_kubectl_shows_the_usual_columns(kind: type[Resource], narrow: str, wide: str) -> None:
    """NP-14: columns of a NodePool; NC-04: columns of a NodeClaim."""
    assert columns(kind, 0) == narrow.split()
    assert columns(kind, 1) == wide.split()


def test_a_node_pool_can_be_scaled() -> None:
    """NP-13: static pools."""
    assert version(NodePool)["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.nodes",
    }


def test_the_server_writes_the_defaults_of_v1() -> None:
    """NP-07..NP-10: defaults of the disruption block."""
    spec = spec_schema(NodePool)["properties"]
    whole = {
        "consolidateAfter": "0s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "10%"}],
    }
    disruption = spec["disruption"]
    assert disruption["default"] == whole
    fields = disruption["properties"]
    said = {name: fields[name].get("default") for name in whole}
    assert said == whole | {"consolidateAfter": None}
    assert disruption["required"] == ["consolidateAfter"]
    assert disruption["properties"]["budgets"]["items"]["properties"]["nodes"]["default"] == "10%"
    template = spec["template"]["properties"]["spec"]
    assert template["properties"]["expireAfter"]["default"] == "720h"
    assert template["required"] == ["requirements", "nodeClassRef"]


def test_what_may_not_change_is_said_as_transition_rules() -> None:
    """NP-04: reference to the node class; NP-13: static pools; NC-01: the spec of a NodeClaim is immutable."""
    template = spec_schema(NodePool)["properties"]["template"]["properties"]["spec"]
    reference = rules(template["properties"]["nodeClassRef"])
    assert reference == ["self.group == oldSelf.group", "self.kind == oldSelf.kind"]
    assert "has(self.replicas) == has(oldSelf.replicas)" in rules(spec_schema(NodePool))
    assert "self == oldSelf" in rules(spec_schema(NodeClaim))


def test_a_claim_is_read_with_its_defaults() -> None:
    """NC-01, NC-02: the acronyms keep their capitals."""
    raw = {
        "spec": {"requirements": [], "nodeClassRef": REFERENCE},
        "status": {"providerID": "aws:///a/i-1", "imageID": "ami-1", "lastPodEventTime": None},
    }
    claim, faults = read(NodeClaim, raw)
    assert faults == []
    assert claim is not None
    assert claim.spec.expire_after == "720h"
    assert (claim.status.provider_id, claim.status.image_id) == ("aws:///a/i-1", "ami-1")


def test_a_claim_without_a_class_is_refused() -> None:
    """NC-01: the spec of a NodeClaim is immutable."""
    _, faults = read(NodeClaim, {"spec": {"requirements": []}})
    assert [str(fault) for fault in faults] == ["spec.nodeClassRef: is required"]
