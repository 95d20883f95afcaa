"""The region of the catalogue must match the zones of the inputs."""

from __future__ import annotations

from typing import Any

import pytest

from shared.simulation.regions import only_region, region_mismatch, regions_in
from tests.shared.simulation.documents import answer, instance_type, node, node_pool, offering, pod

ZONE = "topology.kubernetes.io/zone"
IRISH = {"key": ZONE, "operator": "In", "values": ["eu-west-1a", "eu-west-1b"]}
CYCLE: dict[str, Any] = {"kind": "Pod"}
CYCLE["self"] = [CYCLE]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (pod(nodeSelector={ZONE: "eu-west-1b"}), {"eu-west-1"}),
        (node_pool(requirements=[IRISH]), {"eu-west-1"}),
        (node(), {"us-east-1"}),
        ({"status": {"subnets": [{"id": "subnet-1", "zone": "us-gov-west-1a"}]}}, {"us-gov-west-1"}),
        ([pod(nodeSelector={ZONE: "eu-west-1b"}), node()], {"eu-west-1", "us-east-1"}),
        (pod(nodeSelector={ZONE: "test-zone-1"}), set()),
        (pod(nodeSelector={ZONE: "us-west-2-lax-1a"}), set()),
        ({"key": ["odd"], "values": "odd", "subnets": [1], ZONE: 7}, set()),
        (CYCLE, set()),
    ],
)  # fmt: skip
def test_zones_tell_the_region(document: object, expected: set[str]) -> None:
    assert regions_in([document]) == expected


def test_a_single_region_is_taken_and_several_are_not() -> None:
    irish = pod(nodeSelector={ZONE: "eu-west-1b"})
    assert only_region([irish]) == "eu-west-1"
    assert only_region([irish, node()]) == ""


def test_a_catalogue_of_another_region_is_told() -> None:
    irish = pod(nodeSelector={ZONE: "eu-west-1b"})
    assert "eu-west-1" in region_mismatch("us-east-1", [irish])
    assert region_mismatch("us-east-1", [irish, node()]) == region_mismatch("", [irish]) == ""
    found = answer(irish, instance_type(offerings=[offering("us-east-1a")]))
    assert [(one["field"], one["name"]) for one in found["faults"]] == [("region", "")]
