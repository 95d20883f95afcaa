"""The CreateFleet request (LCH-45..LCH-56)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.launcher.fleet import (
    MACHINE_TAG,
    MOST_TYPES,
    TOKEN_TAG,
    Choice,
    Template,
    choose,
    fleet_request,
    instance_tags,
    launch_token,
)
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_sizes import sized
from shared.domain.instance_types import InstanceType, SizeFacts
from shared.domain.machines import Machine
from shared.domain.nodepools import V1
from shared.domain.size_settings import USUAL, SizeSettings
from shared.domain.snapshot import OfferingKey
from shared.errors import InsufficientCapacity
from tests.support.builders import ZONES, make_catalogue, make_machine, make_node_class, make_type

BOTH = (keys.SPOT, keys.ON_DEMAND)
SUBNETS = {zone: f"subnet-{zone}" for zone in ZONES}


def wanting(*expressions: Expression, **changes: Any) -> Machine:
    return make_machine(requirements=expressions, **changes)


def capacity(*kinds: str) -> Expression:
    return Expression(keys.CAPACITY_TYPE, "In", kinds)


def chosen(
    machine: Machine, *types: InstanceType, zones: tuple[str, ...] = ZONES,
    unavailable: frozenset[OfferingKey] = frozenset(),
) -> tuple[str, list[str]]:  # fmt: skip
    kind, choices = choose(machine, make_catalogue(types), zones, unavailable)
    return kind, [choice.type.name for choice in choices]


def test_spot_comes_first_where_it_is_allowed() -> None:
    """LCH-47."""
    kind = make_type(capacity_types=BOTH)
    assert chosen(wanting(capacity(*BOTH)), kind)[0] == keys.SPOT
    assert chosen(wanting(), kind)[0] == keys.SPOT
    assert chosen(wanting(capacity(keys.ON_DEMAND)), kind)[0] == keys.ON_DEMAND


def test_on_demand_takes_over_when_no_spot_is_left() -> None:
    """LCH-47: by the catalogue, or by what EC2 refused."""
    kind = make_type(capacity_types=BOTH)
    refused = frozenset((keys.SPOT, kind.name, zone) for zone in ZONES)
    assert chosen(wanting(capacity(*BOTH)), make_type())[0] == keys.ON_DEMAND
    assert chosen(wanting(capacity(*BOTH)), kind, unavailable=refused)[0] == keys.ON_DEMAND


def test_an_unavailable_offering_is_not_asked_for() -> None:
    """LCH-61."""
    refused = frozenset({(keys.ON_DEMAND, "m5.large", ZONES[0])})
    _, (choice,) = choose(wanting(), make_catalogue((make_type(),)), ZONES, refused)
    assert [o.zone for o in choice.offerings] == list(ZONES[1:])


def test_a_machine_fits_what_its_own_settings_leave_to_pods() -> None:
    """IT-13, IT-34: m5.large with two addresses fewer than pods, and with a reserved core."""
    facts = SizeFacts(3, 3, 10, 0)
    small = sized(make_type("m5.large"), facts, USUAL)
    large = sized(make_type("m5.xlarge", 4, 16), facts, USUAL)
    catalogue = make_catalogue((small, large))
    machine = wanting(requests={"cpu": 1500, "pods": 10})

    def names(settings: SizeSettings) -> list[str]:
        _, choices = choose(machine, catalogue, ZONES, frozenset(), settings)
        return [choice.type.name for choice in choices]

    assert names(USUAL) == ["m5.large", "m5.xlarge"]
    assert names(SizeSettings(kube_reserved=(("cpu", 1000),))) == ["m5.xlarge"]
    assert names(SizeSettings(pods_per_core=4)) == ["m5.xlarge"]
    with pytest.raises(InsufficientCapacity):
        names(SizeSettings(max_pods=9))


def test_without_an_offering_there_is_no_capacity() -> None:
    """LCH-53."""
    for machine, zones in ((wanting(), ()), (wanting(capacity(keys.SPOT)), ZONES)):
        with pytest.raises(InsufficientCapacity, match="no capacity offerings are currently"):
            choose(machine, make_catalogue((make_type(),)), zones, frozenset())


def test_only_zones_with_a_subnet_and_allowed_ones_are_asked_for() -> None:
    """LCH-11, LCH-52."""
    machine = wanting(Expression(keys.ZONE, "In", ZONES[1:]))
    _, (choice,) = choose(machine, make_catalogue((make_type(),)), ZONES[:2], frozenset())
    assert [o.zone for o in choice.offerings] == [ZONES[1]]


def test_at_most_sixty_types_the_cheapest_first() -> None:
    """LCH-46, scenario 61."""
    types = [make_type(f"m5.x{n:03d}", price=1000 - n) for n in range(100)]
    _, names = chosen(wanting(), *types)
    assert names == [f"m5.x{n:03d}" for n in range(99, 99 - MOST_TYPES, -1)]
    assert MOST_TYPES == 60


def test_types_that_do_not_suit_are_left_out() -> None:
    """LCH-45: too small, another architecture, another name."""
    big = make_type("m5.big", cpu=8)
    arm = make_type("m6g.big", cpu=8, labels={keys.ARCH: ("arm64",)})
    small = make_type("m5.small", cpu=1)
    amd = Expression(keys.ARCH, "In", ("amd64",))
    assert chosen(wanting(amd, requests={"cpu": 4000}), big, arm, small)[1] == ["m5.big"]
    named = Expression(keys.INSTANCE_TYPE, "In", ("m6g.big",))
    assert chosen(wanting(named), big, arm, small)[1] == ["m6g.big"]


def test_labels_that_the_cloud_does_not_know_are_for_the_node_to_carry() -> None:
    """A pool's own label is no property of an instance type."""
    machine = wanting(Expression("team", "In", ("blue",)))
    assert chosen(machine, make_type())[1] == ["m5.large"]


def test_a_well_known_label_that_a_type_lacks_excludes_it() -> None:
    """IT-45: absent means DoesNotExist."""
    gpu = keys.AWS_PREFIX + "instance-gpu-count"
    plain, card = make_type("m5.big"), make_type("g5.big", labels={gpu: ("1",)})
    assert chosen(wanting(Expression(gpu, "Exists")), plain, card)[1] == ["g5.big"]
    assert chosen(wanting(Expression(gpu, "DoesNotExist")), plain, card)[1] == ["m5.big"]


def test_metal_and_accelerators_go_while_plain_types_remain() -> None:
    """LCH-45."""
    plain, metal = make_type("m5.big"), make_type("m5.metal", price=1)
    card = make_type("g5.big", price=1, **{"nvidia.com/gpu": 1})
    assert chosen(wanting(), plain, metal, card)[1] == ["m5.big"]
    assert chosen(wanting(), metal, card)[1] == ["g5.big", "m5.metal"]


def test_spot_dearer_than_the_cheapest_on_demand_is_dropped() -> None:
    """LCH-45: spot of the big one (300) costs more than the small one on demand (100)."""
    small = make_type("m5.small", price=100, capacity_types=BOTH)
    big = make_type("m5.big", price=1000, capacity_types=BOTH)
    assert chosen(wanting(capacity(*BOTH)), small, big) == (keys.SPOT, ["m5.small"])
    assert chosen(wanting(capacity(keys.SPOT)), small, big)[1] == ["m5.small", "m5.big"]


def request(**changes: Any) -> dict[str, Any]:
    choices = [
        Choice(kind, kind.offerings)
        for kind in (make_type("m5.large"), make_type("m5.xlarge", price=192_000, zones=ZONES[:1]))
    ]
    fields: dict[str, Any] = {
        "choices": choices,
        "capacity_type": keys.ON_DEMAND,
        "templates": [
            Template("lt-1", 3, "ami-1", frozenset({"m5.large"})),
            Template("lt-2", 1, "ami-1", frozenset({"m5.xlarge"})),
            Template("lt-3", 1, "ami-1", frozenset({"c5.large"})),
        ],
        "subnets": SUBNETS,
        "tags": {"b": "2", "a": "1"},
        "token": "lr-x",
        "context": "",
    }
    fields.update(changes)
    positional = [
        fields.pop(n) for n in ("choices", "capacity_type", "templates", "subnets", "tags")
    ]
    return fleet_request(*positional, **fields)


def test_the_request_is_complete() -> None:
    """LCH-50..LCH-52, scenario 21: it can be sent again unchanged after a crash."""
    asked = request()
    assert asked["Type"] == "instant"
    assert asked["ClientToken"] == "lr-x"
    assert asked["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 1,
        "DefaultTargetCapacityType": "on-demand",
    }
    assert asked["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}
    assert "SpotOptions" not in asked
    assert "Context" not in asked
    first, second = asked["LaunchTemplateConfigs"]
    assert first["LaunchTemplateSpecification"] == {"LaunchTemplateId": "lt-1", "Version": "3"}
    assert first["Overrides"][0] == {
        "InstanceType": "m5.large",
        "SubnetId": SUBNETS[ZONES[0]],
        "AvailabilityZone": ZONES[0],
        "Priority": 0.096,
    }
    assert [o["AvailabilityZone"] for o in first["Overrides"]] == list(ZONES)
    assert [o["InstanceType"] for o in second["Overrides"]] == ["m5.xlarge"]
    kinds = {s["ResourceType"]: s["Tags"] for s in asked["TagSpecifications"]}
    assert set(kinds) == {"instance", "volume", "fleet"}
    assert kinds["volume"] == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]


def test_spot_is_allocated_by_price_and_capacity() -> None:
    """LCH-51; LCH-50: a context is passed on."""
    asked = request(capacity_type=keys.SPOT, context="reserved")
    assert asked["SpotOptions"] == {"AllocationStrategy": "price-capacity-optimized"}
    assert "OnDemandOptions" not in asked
    assert asked["Context"] == "reserved"


def test_every_instance_carries_its_owner_token_and_machine() -> None:
    """LCH-56; scenario 23: a user's Name wins, a user's ownership tag does not."""
    mine = {"Name": "mine", "auto-delete": "no", "kubernetes.io/cluster/dev": "shared"}
    tags = instance_tags(make_machine("m"), make_node_class(tags=mine), "dev", "lr-x")
    assert tags == {
        "Name": "mine",
        "auto-delete": "no",
        "kubernetes.io/cluster/dev": "owned",
        keys.PROVISIONER_NAME: "default",
        keys.MANAGED_BY: "dev",
        TOKEN_TAG: "lr-x",
        MACHINE_TAG: "m",
    }
    plain = instance_tags(make_machine("m"), make_node_class(), "dev", "lr-x")
    assert plain["Name"] == "karpenter.sh/provisioner-name/default"


def test_a_nodeclaims_instance_carries_the_tags_of_v1() -> None:
    """LCH-56: the user's Name is set until registration names it after its node; ours always win."""
    mine = {"Name": "mine", keys.NODE_POOL: "other", "eks:eks-cluster-name": "other"}
    machine = make_machine("c", generation_api=V1)
    node_class = make_node_class("nodes", generation_api=V1, tags=mine)
    assert instance_tags(machine, node_class, "dev", "lr-x") == {
        "Name": "mine",
        "kubernetes.io/cluster/dev": "owned",
        keys.NODE_POOL: "default",
        "eks:eks-cluster-name": "dev",
        keys.NODE_CLASS: "nodes",
        TOKEN_TAG: "lr-x",
        MACHINE_TAG: "c",
    }


def test_a_claim_without_a_pool_is_still_found_by_the_pools_tag() -> None:
    """NC-10, LCH-83."""
    machine = make_machine("c", pool="", generation_api=V1)
    tags = instance_tags(machine, make_node_class(generation_api=V1), "dev", "lr-x")
    assert tags[keys.NODE_POOL] == ""


@given(st.text(min_size=1), st.integers(0, 10**9))
def test_a_token_is_short_stable_and_a_valid_object_name(uid: str, attempt: int) -> None:
    """F1, EC2's limit of 64 characters; it is also the LaunchRecord's name."""
    token = launch_token(uid, attempt)
    assert token == launch_token(uid, attempt)
    assert len(token) <= 64
    assert token.isascii()
    assert token.replace("-", "").isalnum()
    assert token == token.lower()
    assert token != launch_token(uid, attempt + 1)
    assert token != launch_token(uid + "x", attempt)


def test_tokens_are_the_same_in_every_build() -> None:
    """A replay after an upgrade must find the record that the old build wrote."""
    assert launch_token("uid-1", 0) == GOLDEN_TOKEN


GOLDEN_TOKEN = "lr-fd0b8d750b99ee2b01a3f4e16f6a6d089fc34f474a5a2426eb61d377"
