"""Provisioners as users write them, for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.api.v1alpha5.provisioners import (
    parse_provisioner,
    provisioner_object,
)
from shared.domain import labels as keys
from shared.domain.pools.nodepools import (
    NodePool,
)
from tests.shared.api.conftest import document

FAMILY = keys.AWS_PREFIX + "instance-category"
INLINE = {
    "subnetSelector": {"karpenter.sh/discovery": "dev"},
    "securityGroupSelector": {"karpenter.sh/discovery": "dev"},
}


def provisioner(**spec: Any) -> dict[str, Any]:
    """A valid one, with changes."""
    return document({"providerRef": {"name": "default"}, **spec})


def texts(raw: dict[str, Any]) -> list[str]:
    """The faults of a document as sentences; a record comes only without them."""
    found = parse_provisioner(raw)
    assert (found.record is None) == bool(found.faults)
    return [str(fault) for fault in found.faults]


def faults_of(**spec: Any) -> list[str]:
    return texts(provisioner(**spec))


def pool_of(**spec: Any) -> NodePool:
    return parse_provisioner(provisioner(**spec)).require("Provisioner/one")


def assert_comes_back(pool: NodePool) -> None:
    """The law of round trips, but for what the API server and the status add."""
    written = provisioner_object(pool)
    read_again = parse_provisioner(written.document)
    assert written.notes or read_again.record == own_words(pool)


def own_words(pool: NodePool) -> NodePool:
    return msgspec.structs.replace(pool, uid="", generation=0, usage={}, terminating=False)
