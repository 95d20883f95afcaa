"""What an EC2NodeClass asks of EC2, on the local stack: placement groups, reservations that their owner takes back,
another role, and Ubuntu."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from cli.demo import workload
from shared.domain import labels as keys
from tests.support.aws.emulator import make_placement_group, whole_iam
from tests.support.cluster.kubectl import NEEDS_KUBECTL
from tests.support.stories.node_classes import (
    boot_data,
    class_with,
    instances_of,
    labels,
    machines,
    one_of,
    order,
)
from tests.support.stories.playground import Playground, ShellKubectl, until
from tests.support.stories.scale_down import Pool, instance_type

pytestmark = [pytest.mark.e2e, NEEDS_KUBECTL]
NEVER = {"consolidateAfter": "Never"}
INTERRUPTIBLE = "karpenter.k8s.aws/capacity-reservation-interruptible"
CANONICAL = "/aws/service/canonical/ubuntu/eks/20.04/1.32/stable/current/amd64/hvm/ebs-gp2/ami-id"
Json = dict[str, Any]


async def test_what_one_placement_group_has_no_room_for_others_still_get(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """EC2 refuses the cheapest type in the group alone: the pool of the group takes the next one, another pool this."""
    ground = playground
    group = await make_placement_group(ground.environment.aws_endpoint_url, "close", "cluster")
    await order(
        ground, "capacity", instanceType="m5a.*", zone="*", capacityType="*", available=0, placementGroup="close"
    )  # fmt: skip
    two = one_of("karpenter.k8s.aws/instance-family", "m5", "m5a")
    grouped = await class_with(ground, kubectl, "grouped", placementGroupSelector={"name": "close"})
    plain = await class_with(ground, kubectl, "plain")
    inside, outside = (Pool(ground, kubectl, "NodePool", name) for name in ("inside", "outside"))
    await inside.apply([*machines("m5")[:1], two, machines("m5")[2]], grouped, disruption=NEVER)
    await inside.run(1, cpu="1500m")
    (node,) = await inside.serving(1)
    assert instance_type(node) == "m5.large"
    assert labels([node], keys.PLACEMENT_GROUP) == [group]
    assert "offerings are unavailable" in ground.logged("launcher")
    await outside.apply([*machines("m5")[:1], two, machines("m5")[2]], plain, disruption=NEVER)
    await outside.run(1, cpu="1500m")
    (node,) = await outside.serving(1)
    assert instance_type(node) == "m5a.large"
    assert labels([node], keys.PLACEMENT_GROUP) == [""]


async def test_a_spread_group_takes_seven_machines_in_a_zone_and_the_eighth_elsewhere(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """EC2 never has to refuse one."""
    await make_placement_group(playground.environment.aws_endpoint_url, "racks", "spread")
    template = await class_with(
        playground, kubectl, "spread", placementGroupSelector={"name": "racks"}
    )
    pool = Pool(playground, kubectl, "NodePool", "spread")
    in_one = one_of(keys.ZONE, "us-west-2a")
    await pool.apply(machines("c6a", in_one), template, disruption=NEVER)
    await pool.run(8, cpu="1500m")

    async def seven() -> bool:
        running = [one for one in await pool.pods() if one["status"].get("phase") == "Running"]
        return len(running) == len(await pool.nodes()) == 7

    await until(seven, "seven pods run, and one waits")
    both = one_of(keys.ZONE, "us-west-2a", "us-west-2b")
    await pool.apply(machines("c6a", both), template, disruption=NEVER)
    nodes = await pool.serving(8, nodes=8)
    zones = Counter(labels(nodes, keys.ZONE))
    assert zones == {"us-west-2a": 7, "us-west-2b": 1}
    assert "offerings are unavailable" not in playground.logged("launcher")


async def test_a_place_in_an_interruptible_reservation_is_used_until_its_owner_takes_it_back(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    where = {"instanceType": "r6a.large", "zone": "us-west-2b", "count": 1}
    lent = await order(
        playground, "reservations", **where, interruptible=True, tags={"lent": "true"}
    )
    terms = [{"tags": {"lent": "true"}}]
    template = await class_with(playground, kubectl, "lent", capacityReservationSelectorTerms=terms)
    pool = Pool(playground, kubectl, "NodePool", "lent")
    markets = one_of(keys.CAPACITY_TYPE, "reserved", keys.ON_DEMAND)
    await pool.apply([markets, *machines("r6a")[1:]], template, disruption=NEVER)
    await pool.run(1, cpu="1500m")
    (node,) = await pool.serving(1)
    assert labels([node], keys.CAPACITY_TYPE) == ["reserved"]
    assert labels([node], INTERRUPTIBLE) == ["true"]
    (instance,) = await instances_of(playground, [node])
    assert instance["CapacityReservationId"] == lent["reservationId"]
    await order(
        playground, "interruptions", kind="capacity-reservation", instanceId=instance["InstanceId"]
    )

    async def moved() -> bool:
        return labels(await pool.nodes(), keys.CAPACITY_TYPE) == [keys.ON_DEMAND]

    await until(moved, "the pod is on a machine that nobody takes back")


async def test_machines_of_another_role_take_the_place_of_those_with_the_first(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """Each role has an instance profile of its own, so the old machine keeps its rights to its end."""
    role = f"KarpenterNodeRole-{playground.environment.cluster_name}"
    async with whole_iam(playground.environment.aws_endpoint_url) as iam:
        await iam.create_role(RoleName=f"{role}-second", AssumeRolePolicyDocument="{}")
        template = await class_with(playground, kubectl, "roles", role=role)
        pool = Pool(playground, kubectl, "NodePool", "roles")
        await pool.apply(machines("m6a"), template, disruption=NEVER)
        await pool.run(1, cpu="1500m")
        first = await pool.serving(1)

        async def roles(nodes: list[Json]) -> list[str]:
            arns = [
                one["IamInstanceProfile"]["Arn"] for one in await instances_of(playground, nodes)
            ]
            names = [arn.rpartition("/")[2] for arn in arns]
            found = [await iam.get_instance_profile(InstanceProfileName=name) for name in names]
            return [one["InstanceProfile"]["Roles"][0]["RoleName"] for one in found]

        assert await roles(first) == [role]
        await class_with(playground, kubectl, "roles", role=f"{role}-second")

        async def replaced() -> bool:
            nodes = await pool.nodes()
            return len(nodes) == 1 and await roles(nodes) == [f"{role}-second"]

        await until(replaced, "the machine drifted to the second role")


async def test_ubuntu_boots_in_both_generations(
    playground: Playground, kubectl: ShellKubectl
) -> None:
    """v1alpha5 has the family; an EC2NodeClass says AL2, whose boot script Canonical's images have too."""
    old = workload.node_template(playground.environment.cluster_name)
    old["spec"]["amiFamily"] = "Ubuntu"
    await kubectl.apply(old)
    new = await class_with(
        playground, kubectl, "ubuntu", amiFamily="AL2", amiSelectorTerms=[{"ssmParameter": CANONICAL}]
    )  # fmt: skip
    pools = [Pool(playground, kubectl, *one) for one in (("Provisioner", "focal"), ("NodePool", "jammy"))]  # fmt: skip
    for pool in pools:
        await pool.apply(machines("c5"), new if pool.kind == "NodePool" else None)
        await pool.run(1, cpu="1500m")
    for pool in pools:
        nodes = await pool.serving(1)
        assert [node["status"]["nodeInfo"]["osImage"] for node in nodes] == ["Ubuntu 20.04 LTS"]
        (instance,) = await instances_of(playground, nodes)
        text = await boot_data(playground, instance["InstanceId"])
        assert f"/etc/eks/bootstrap.sh {playground.environment.cluster_name}" in text.replace(
            "'", ""
        )
