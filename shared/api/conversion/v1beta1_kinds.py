"""The kinds of v1beta1, apart from their conversion: whoever only asks whether an object is one of them does not import
the schemas of v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.faults import Path

Json = Mapping[str, Any]
CORE, AWS = "karpenter.sh", "karpenter.k8s.aws"
NODE_POOL = (f"{CORE}/v1beta1", "NodePool")
NODE_CLAIM = (f"{CORE}/v1beta1", "NodeClaim")
NODE_CLASS = (f"{AWS}/v1beta1", "EC2NodeClass")
KINDS = frozenset({NODE_POOL, NODE_CLAIM, NODE_CLASS})
"""(apiVersion, kind) of everything that ``v1beta1`` rewrites."""
POOL_KUBELET: Path = ("spec", "template", "spec", "kubelet")


def is_v1beta1(document: object) -> bool:
    """Whether the document says that it is a kind of v1beta1."""
    return isinstance(document, Mapping) and kind_of(document) in KINDS


def kind_of(document: Json) -> tuple[str, str]:
    """(apiVersion, kind); ("", "") when either is missing."""
    version, kind = document.get("apiVersion"), document.get("kind")
    return (version, kind) if isinstance(version, str) and isinstance(kind, str) else ("", "")
