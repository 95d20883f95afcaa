"""The annotation by which a pool requires approval, on pools of both generations."""

from __future__ import annotations

import pytest

from shared.api.v1.node_pools import node_pool_object, parse_node_pool
from shared.api.v1alpha5.provisioners import parse_provisioner, provisioner_object
from shared.domain.pools.nodepools import APPROVABLE, DRIFTED, UNDERUTILIZED, NodePool
from tests.shared.api.core.test_pool_capacity import faults, node_pool


def provisioner(written: str) -> NodePool:
    metadata = {"name": "a", "annotations": {"dovetail.sh/approval": written}}
    return parse_provisioner(
        {"metadata": metadata, "spec": {"providerRef": {"name": "default"}}}
    ).require("a")


@pytest.mark.parametrize(
    ("written", "reasons"),
    [
        ("required", APPROVABLE),
        ("Drifted", (DRIFTED,)),
        ("Underutilized, Drifted,Drifted", (DRIFTED, UNDERUTILIZED)),
        ("", ()),
    ],
)
def test_all_reasons_or_some(written: str, reasons: tuple[str, ...]) -> None:
    pools = (node_pool({"approval": written}).require("a"), provisioner(written))
    assert [pool.approval for pool in pools] == [reasons, reasons]
    assert parse_node_pool(node_pool_object(pools[0]).document).require("a").approval == reasons
    assert parse_provisioner(provisioner_object(pools[1]).document).require("a").approval == reasons


@pytest.mark.parametrize("written", ["yes", "Drifted;Empty", "drifted", ",", "Interrupted"])
def test_anything_else_is_a_fault_that_names_the_field_and_what_is_allowed(written: str) -> None:
    """A misspelled annotation must not seem to work."""
    (fault,) = faults({"approval": written})
    assert fault.startswith(f"metadata.annotations[dovetail.sh/approval]: {written!r} is not ")
    assert fault.endswith(
        "required, or some of Drifted, Empty, Expired, Underutilized, separated by commas"
    )
