"""A text of a wrong form is answered with one that is right, and not with a regular expression."""

from typing import Any

import pytest

from shared.api.registry import check


def pool(disruption: dict[str, Any] | None = None, **template: Any) -> dict[str, Any]:
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"},
        "requirements": [],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "a"},
        "spec": {
            "template": {"spec": {**spec, **template}},
            "disruption": {"consolidateAfter": "0s", **(disruption or {})},
        },
    }


def node_class(**spec: Any) -> dict[str, Any]:
    usual = {
        "role": "a",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
    }
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "a"},
        "spec": {**usual, **spec},
    }


def overlay(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "a"},
        "spec": {"requirements": [], **spec},
    }


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (pool(expireAfter="30d"), "'30d' has the wrong format; write for example 30s, 720h or Never"),
        (pool({"consolidateAfter": "<1m>"}), "'<1m>' has the wrong format; write for example 30s, 720h or Never"),
        (pool(terminationGracePeriod="Never"), "'Never' has the wrong format; write for example 30s or 1h30m"),
        (pool({"budgets": [{"nodes": "110%"}]}), """'110%' has the wrong format; write for example "5" or "10%\""""),
        (
            pool({"budgets": [{"schedule": "@daily", "duration": "90s"}]}),
            "'90s' has the wrong format; write for example 8h or 1h30m",
        ),
        (
            node_class(subnetSelectorTerms=[{"id": "my-subnet"}]),
            "'my-subnet' has the wrong format; write for example subnet-0123456789abcdef0",
        ),
        (
            node_class(capacityReservationSelectorTerms=[{"ownerID": "1234-5678-9012"}]),
            "'1234-5678-9012' has the wrong format; write for example '123456789012'",
        ),
        (overlay(priceAdjustment="10%"), """'10%' has the wrong format; write for example "+10%" or "-0.5\""""),
        (node_class(instanceStorePolicy="NVME"), "'NVME' is not supported; write 'RAID0'"),
        (
            node_class(kubelet={"maxPod": 9}, amiSelectorTerms=[{"alias": "al2@latest"}]),
            "is not a kubelet setting; write maxPods",
        ),
        (overlay(price="$1"), "'$1' has the wrong format; write for example \"0.05\""),
    ],
)  # fmt: skip
def test_a_wrong_form_is_answered_with_a_right_one(document: dict[str, Any], fault: str) -> None:
    assert [one.message for one in check(document)] == [fault]
