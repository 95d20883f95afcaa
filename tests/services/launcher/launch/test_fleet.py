"""The CreateFleet request (LCH-50..LCH-56)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.launcher.launch.fleet import (
    MOST_CONFIGURATIONS,
    MOST_OVERRIDES,
    addressed,
    all_or_none,
    capacity_type_of,
    digest,
    fleet_request,
    launch_token,
    overrides_of,
)
from services.launcher.launch_template.content import instance_tags
from services.launcher.launch_template.variants import Choice, Template
from shared.cloud.ec2.ownership import TOKEN_TAG
from shared.cloud.ec2.records import tags_from
from shared.domain import labels as keys
from shared.domain.instance_types.types import InstanceType, Offering
from shared.domain.machines.machine import Machine
from shared.domain.pools.generations import V1
from tests.support.planning.builders import ZONES, make_machine, make_node_class, make_type

SUBNETS = {zone: f"subnet-{zone}" for zone in ZONES}


def choice(kind: InstanceType) -> Choice:
    return Choice(kind, kind.offerings)


def request(**changes: Any) -> dict[str, Any]:
    large, xlarge = make_type("m5.large"), make_type("m5.xlarge", price=192_000, zones=ZONES[:1])
    fields: dict[str, Any] = {
        "capacity_type": keys.ON_DEMAND,
        "choices": [choice(large), choice(xlarge)],
        "templates": [
            Template("lt-1", 3, "ami-1", frozenset({"m5.large"})),
            Template("lt-2", 1, "ami-1", frozenset({"m5.xlarge"})),
            Template("lt-3", 1, "ami-1", frozenset({"c5.large"})),
        ],
        "subnets": SUBNETS,
        "tags": {"b": "2", "a": "1"},
        "context": "",
    }
    return fleet_request(**{**fields, **changes})


def test_the_request_is_complete() -> None:
    """LCH-50..LCH-52, ACC-21: it can be sent again unchanged after a crash."""
    asked = addressed(request(), [make_machine("m")], "lr-x")
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
        "ImageId": "ami-1",
        "Priority": 0.096,
    }
    assert [o["AvailabilityZone"] for o in first["Overrides"]] == list(ZONES)
    assert [o["InstanceType"] for o in second["Overrides"]] == ["m5.xlarge"]
    kinds = {s["ResourceType"]: s["Tags"] for s in asked["TagSpecifications"]}
    assert set(kinds) == {"instance", "volume", "fleet"}
    for tags in kinds.values():
        assert tags_from(tags) == {"a": "1", "b": "2", TOKEN_TAG: "lr-x", keys.MACHINE_TAG: "m"}


def test_spot_is_allocated_by_price_and_capacity() -> None:
    """LCH-51; LCH-50: a context is passed on."""
    asked = request(capacity_type=keys.SPOT, context="reserved")
    assert asked["SpotOptions"] == {"AllocationStrategy": "price-capacity-optimized"}
    assert "OnDemandOptions" not in asked
    assert asked["Context"] == "reserved"


@pytest.mark.parametrize(
    ("capacity_type", "options"),
    [
        (keys.SPOT, {"SpotOptions": {"AllocationStrategy": "capacity-optimized-prioritized"}}),
        (keys.ON_DEMAND, {"OnDemandOptions": {"AllocationStrategy": "prioritized"}}),
    ],
)
def test_corrected_prices_decide_by_their_order(
    capacity_type: str, options: dict[str, Any]
) -> None:
    """LCH-51: EC2 knows nothing of an administrator's prices, so it gets priorities; the smallest number is first."""
    plain, cheap = make_type("m5.large"), make_type("m5.xlarge", price=192_000, zones=ZONES[:1])
    offering = replace(cheap.offerings[0], price_micro_usd_per_hour=10_000, overlaid=True)
    choices = [choice(plain), Choice(cheap, (offering,))]
    asked = request(capacity_type=capacity_type, choices=choices)
    assert options.items() <= asked.items()
    assert len({"SpotOptions", "OnDemandOptions"} & set(asked)) == 1
    first = min(overrides_of(asked), key=lambda one: one["Priority"])
    assert (first["InstanceType"], first["Priority"]) == ("m5.xlarge", 0.01)


def test_equal_requests_go_into_one_call() -> None:
    """LCH-54, ACC-64: the digest knows no machine; number and token are added for all of them."""
    assert digest(request()) == digest(request())
    assert digest(request()) != digest(request(context="reserved"))
    machines = [make_machine(name) for name in "abc"]
    asked = addressed(request(), machines, "lr-x")
    assert asked["TargetCapacitySpecification"]["TotalTargetCapacity"] == 3
    tags = tags_from(asked["TagSpecifications"][0]["Tags"])
    assert tags[TOKEN_TAG] == "lr-x"
    assert keys.MACHINE_TAG not in tags


def test_no_pool_is_named_twice() -> None:
    """LCH-52: EC2 would refuse the request; the first template that starts a type is taken."""
    twice = [
        Template("lt-1", 3, "ami-1", frozenset({"m5.large"})),
        Template("lt-2", 1, "ami-2", frozenset({"m5.large"})),
    ]
    choices = [choice(make_type()), choice(make_type())]
    (config,) = request(choices=choices, templates=twice)["LaunchTemplateConfigs"]
    assert [o["AvailabilityZone"] for o in config["Overrides"]] == list(ZONES)
    assert {o["ImageId"] for o in config["Overrides"]} == {"ami-1"}


def test_a_request_stays_within_what_ec2_takes() -> None:
    """LCH-46, LCH-52: the cheapest pools are kept."""
    zones = tuple(f"us-west-2{letter}" for letter in "abcdef")
    kinds = [make_type(f"m5.x{n:02d}", price=(n + 1) * 10, zones=zones) for n in range(60)]
    templates = [Template(f"lt-{k.name}", 1, "ami", frozenset({k.name})) for k in kinds]
    asked = request(
        choices=[choice(kind) for kind in kinds],
        templates=templates,
        subnets={zone: zone for zone in zones},
    )
    configs = asked["LaunchTemplateConfigs"]
    assert len(configs) == MOST_CONFIGURATIONS
    assert len(overrides_of(asked)) <= MOST_OVERRIDES
    assert [c["Overrides"][0]["InstanceType"] for c in configs] == [k.name for k in kinds[:50]]


def test_only_a_reservation_s_template_starts_in_it() -> None:
    """LCH-21, LCH-24: and reserved capacity is asked for as a kind of on-demand."""
    kind = make_type(zones=())
    reserved = Offering(ZONES[0], keys.RESERVED, 0, "cr-1", "default")
    templates = [
        Template("lt-open", 1, "ami", frozenset({kind.name})),
        Template("lt-cr", 1, "ami", frozenset({kind.name}), "cr-1"),
    ]
    asked = request(
        capacity_type=keys.RESERVED, choices=[Choice(kind, (reserved,))], templates=templates
    )
    (config,) = asked["LaunchTemplateConfigs"]
    assert config["LaunchTemplateSpecification"]["LaunchTemplateId"] == "lt-cr"
    assert capacity_type_of(asked) == keys.ON_DEMAND


def test_the_users_own_template_brings_its_image() -> None:
    """T-07: nothing is said about an image that is not known."""
    own = [Template("lt-1", 3, "", frozenset({"m5.large"}))]
    assert "ImageId" not in overrides_of(request(templates=own))[0]


def test_every_instance_carries_its_owner() -> None:
    """LCH-56; ACC-23: a user's Name wins, a user's ownership tag does not."""
    mine = {"Name": "mine", "auto-delete": "no", "kubernetes.io/cluster/dev": "shared"}
    tags = instance_tags(make_machine("m"), make_node_class(tags=mine), "dev")
    assert tags == {
        "Name": "mine",
        "auto-delete": "no",
        "kubernetes.io/cluster/dev": "owned",
        keys.PROVISIONER_NAME: "default",
        keys.MANAGED_BY: "dev",
    }
    plain = instance_tags(make_machine("m"), make_node_class(), "dev")
    assert plain["Name"] == "karpenter.sh/provisioner-name/default"


def test_a_nodeclaims_instance_carries_the_tags_of_v1() -> None:
    """LCH-56: the user's Name is set until registration names it after its node; ours always win."""
    mine = {"Name": "mine", keys.NODE_POOL: "other", "eks:eks-cluster-name": "other"}
    machine = make_machine("c", generation_api=V1)
    node_class = make_node_class("nodes", generation_api=V1, tags=mine)
    assert instance_tags(machine, node_class, "dev") == {
        "Name": "mine",
        "kubernetes.io/cluster/dev": "owned",
        keys.NODE_POOL: "default",
        "eks:eks-cluster-name": "dev",
        keys.NODE_CLASS: "nodes",
    }


def test_a_claim_without_a_pool_is_still_found_by_the_pools_tag() -> None:
    """NC-10: a NodeClaim without pool; LCH-83: which instances are listed."""
    machine = make_machine("c", pool="", generation_api=V1)
    tags = instance_tags(machine, make_node_class(generation_api=V1), "dev")
    assert tags[keys.NODE_POOL] == ""


_ATTEMPTS = st.dictionaries(st.text(min_size=1), st.integers(0, 10**9), min_size=1, max_size=5)


@given(_ATTEMPTS)
def test_a_token_is_short_stable_and_a_valid_object_name(attempts: dict[str, int]) -> None:
    """F1, EC2's limit of 64 characters; it is also the LaunchRecord's name. The order of machines does not count."""
    pairs = list(attempts.items())
    token = launch_token(pairs)
    assert token == launch_token(reversed(pairs))
    assert len(token) <= 64
    assert token.isascii()
    assert token.replace("-", "").isalnum()
    assert token == token.lower()
    uid, attempt = pairs[0]
    assert token != launch_token([(uid, attempt + 1), *pairs[1:]])
    assert token != launch_token([*pairs, (uid + "x", attempt)])


def test_tokens_are_the_same_in_every_build() -> None:
    """Two launchers of different builds must not start the same machine under two tokens."""
    assert launch_token([("uid-1", 0)]) == GOLDEN_TOKEN


GOLDEN_TOKEN = "lr-fd0b8d750b99ee2b01a3f4e16f6a6d089fc34f474a5a2426eb61d377"


def gang(*names: str) -> list[Machine]:
    """A machine for each name of gangs."""
    return [
        make_machine(f"m{at}", annotations={keys.GANG: name} if name else {})
        for at, name in enumerate(names)
    ]


def test_a_gang_is_asked_for_whole_where_ec2_takes_a_minimum() -> None:
    """SCH-117: of one zone or one type, whatever the market."""
    large, both = make_type("m5.large"), make_type("m5.large", zones=ZONES[:1])
    other = make_type("m5.xlarge", zones=ZONES[:1])
    for market, options in ((keys.ON_DEMAND, "OnDemandOptions"), (keys.SPOT, "SpotOptions")):
        for kinds, one in (
            ([large], "SingleInstanceType"),
            ([both, other], "SingleAvailabilityZone"),
        ):
            plain = request(capacity_type=market, choices=list(map(choice, kinds)))
            asked = all_or_none(plain, gang("a/x", "a/x", "a/x"))
            assert asked[options] == {**plain[options], one: True, "MinTargetCapacity": 3}
            assert {**asked, options: plain[options]} == plain


@pytest.mark.parametrize(
    "names", [("a/x",), ("a/x", "a/y"), ("a/x,a/y", "a/x,a/y"), ("", ""), ("a/x", "")]
)
def test_what_is_not_one_gang_may_be_served_in_part(names: tuple[str, ...]) -> None:
    """SCH-117: nor is a single machine asked for with a minimum."""
    plain = request(choices=[choice(make_type("m5.large"))])
    assert all_or_none(plain, gang(*names)) == plain


def test_a_mixture_of_types_and_zones_may_serve_a_gang() -> None:
    """SCH-117: EC2 takes no minimum for it."""
    assert all_or_none(request(), gang("a/x", "a/x")) == request()
