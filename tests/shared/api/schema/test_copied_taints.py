"""Taints that were copied from a node have a time, which Karpenter's definitions allow."""

from typing import Any

import pytest

from shared.api.conversion.convert import convert
from shared.api.parsers import parser_of
from shared.api.registry import check
from shared.domain.expressions import Taint

TAINT = {
    "key": "a",
    "value": "b",
    "effect": "NoExecute",
    "timeAdded": "2026-01-02T03:04:05Z",
}


def node_pool(version: str) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws"} if version == "v1" else {}
    reference |= {"kind": "EC2NodeClass", "name": "a"}
    template = {"nodeClassRef": reference, "requirements": [], "taints": [TAINT]}
    spec = {"template": {"spec": template}}
    return {
        "apiVersion": f"karpenter.sh/{version}",
        "kind": "NodePool",
        "metadata": {"name": "a"},
        "spec": spec,
    }


def provisioner() -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "a"},
        "spec": {"providerRef": {"name": "a"}, "startupTaints": [TAINT]},
    }


@pytest.mark.parametrize("document", [node_pool("v1"), node_pool("v1beta1"), provisioner()])
def test_a_taint_with_a_time_is_accepted_and_the_time_has_no_effect(
    document: dict[str, Any],
) -> None:
    assert check(document) == []
    [written] = convert([document], "v1")
    found = parser_of("NodePool")(written.document).record
    assert found is not None
    assert (*found.taints, *found.startup_taints) == (Taint("a", "NoExecute", "b"),)
