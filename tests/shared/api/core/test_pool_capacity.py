"""The annotations for minimum, headroom and hours, on pools of both generations."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.api.faults import Parsed
from shared.api.v1.node_pools import node_pool_object, parse_node_pool
from shared.api.v1alpha5.provisioners import parse_provisioner, provisioner_object
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.windows import KeptCapacity, Window

REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
DAYTIME = "schedule: '0 8 * * mon-fri', duration: 10h"


def node_pool(annotations: dict[str, str], **spec: Any) -> Parsed[NodePool]:
    template = {"spec": {"requirements": [], "nodeClassRef": REFERENCE}}
    named = {f"dovetail.sh/{name}": value for name, value in annotations.items()}
    return parse_node_pool(
        {"metadata": {"name": "a", "annotations": named}, "spec": {"template": template, **spec}}
    )


def faults(annotations: dict[str, str], **spec: Any) -> list[str]:
    return [str(fault) for fault in node_pool(annotations, **spec).faults]


def test_one_entry_or_a_list_with_schedules() -> None:
    pool = node_pool({"minimum": "nodes: 3", "headroom": "20%"}).require("pool")
    assert pool.minimum == (KeptCapacity(amounts={"nodes": 3}),)
    assert pool.headroom == (KeptCapacity(percent=20),)
    pool = node_pool({"minimum": f"- {{cpu: 10, {DAYTIME}}}\n- memory: 1Gi"}).require("pool")
    assert pool.minimum == (
        KeptCapacity(
            amounts={"cpu": 10_000}, schedule="0 8 * * mon-fri", duration_seconds=36_000.0
        ),
        KeptCapacity(amounts={"memory": 2**30}),
    )


def test_hours_and_what_happens_outside() -> None:
    written = {"hours": f"{{{DAYTIME}}}", "outside-hours": "drain"}
    pool = node_pool(written).require("pool")
    assert pool.hours == (Window(schedule="0 8 * * mon-fri", duration_seconds=36_000.0),)
    assert pool.drains_when_closed


def test_both_generations_read_what_the_other_wrote() -> None:
    """Converting a pool keeps its annotations."""
    written = {
        "minimum": f"- {{nodes: 2, cpu: 1500m, memory: 3Gi, {DAYTIME}}}\n- nodes: 1",
        "headroom": "{percent: 5%, cpu: 2}",
        "hours": f"{{{DAYTIME}}}",
        "outside-hours": "drain",
    }
    pool = node_pool(written).require("pool")
    old = parse_provisioner(provisioner_object(pool).document).require("pool")
    again = parse_node_pool(node_pool_object(old).document).require("pool")
    fields = ("minimum", "headroom", "hours", "drains_when_closed")
    for one in (old, again):
        assert [getattr(one, name) for name in fields] == [getattr(pool, name) for name in fields]
    assert again == replace(pool, hash=again.hash, requirements=again.requirements,
                            budgets=again.budgets, expire_seconds=again.expire_seconds)  # fmt: skip


@pytest.mark.parametrize(
    ("annotation", "written", "field", "says"),
    [
        ("minimum", "three", "minimum]", "write for example nodes: 2"),
        ("headroom", "three", "headroom]", "write for example 20%"),
        ("hours", "always", "hours]", "write for example {schedule: "),
        ("minimum", "[", "minimum]", "is not YAML of one entry"),
        ("minimum", "[]", "minimum]", "is not YAML of one entry"),
        ("minimum", "nodes: -1", "minimum][0].nodes", "at least 0"),
        ("minimum", "cpu: lots", "minimum][0].cpu", "write for example"),
        ("minimum", "noddes: 3", "minimum][0].noddes", "did you mean nodes?"),
        ("minimum", "{}", "minimum][0]", "set one of nodes, cpu, memory"),
        ("minimum", "{nodes: 1, schedule: '@daily'}", "[0].duration", "must be set together"),
        ("minimum", "{nodes: 1, schedule: noon, duration: 1h}", "[0].schedule", "five fields"),
        ("headroom", "120%", "headroom][0].percent", "write for example 20%"),
        ("headroom", "nodes: 2", "headroom][0].nodes", "unknown field"),
        ("hours", "{}", "hours][0].schedule", "is required"),
        ("outside-hours", "stop", "outside-hours]", "one of keep, drain"),
        ("outside-hours", "drain", "outside-hours]", "no effect without dovetail.sh/hours"),
        ("minimum", "- nodes: 1\n" * 51, "minimum]", "more than 50 entries"),
        ("minimum", "nodes: 1 #" + "x" * 30_000, "minimum]", "is not YAML"),
    ],
)  # fmt: skip
def test_each_fault_names_its_field_and_the_fix(
    annotation: str, written: str, field: str, says: str
) -> None:
    found = faults({annotation: written})
    assert any(field in fault and says in fault for fault in found), found


def test_what_the_pool_cannot_have_is_refused() -> None:
    (fault,) = faults({"minimum": "{nodes: 3}"}, limits={"nodes": 2})
    assert "[0].nodes: is above the pool's limit, 2" in fault
    (fault,) = faults({"headroom": "{cpu: 3}"}, limits={"cpu": "2500m"})
    assert "[0].cpu: is above the pool's limit, 2500m" in fault
    (fault,) = faults({"minimum": "{nodes: 3}"}, replicas=2)
    assert "spec.replicas" in fault
