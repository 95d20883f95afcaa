"""Types, offerings, prices, images and the seeded resources over the wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from shared.cloud.catalogue.instance_model import ModelSettings, build_instance_type
from shared.cloud.catalogue.reference_data import bundled_prices, network_bandwidth, vpc_limits
from shared.domain.instance_types.types import Offering
from tests.local.aws.conftest import IMAGE_PARAMETER, ControlClient


async def test_instance_types_come_in_pages(ec2: Any, control: ControlClient) -> None:
    filters = [{"Name": "processor-info.supported-architecture", "Values": ["arm64"]}]
    sizes, names = [], set()
    paginator = ec2.get_paginator("describe_instance_types")
    async for page in paginator.paginate(Filters=filters, PaginationConfig={"PageSize": 60}):
        sizes.append(len(page["InstanceTypes"]))
        names |= {row["InstanceType"] for row in page["InstanceTypes"]}
    assert max(sizes) <= 60
    assert sum(sizes) == len(names) > 300
    assert "m6g.large" in names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("g4ad.xlarge", (4, 16_384, "amd.com/gpu", 1, 8_192, 150, 8)),
        ("g4ad.16xlarge", (64, 262_144, "amd.com/gpu", 4, 8_192, 2_400, 234)),
        ("dl1.24xlarge", (96, 786_432, "habana.ai/gaudi", 8, 32_768, 4_000, 737)),
    ],
)
async def test_types_that_moto_lacks_are_described_as_a_plan_needs_them(
    ec2: Any, control: ControlClient, name: str, expected: tuple[Any, ...]
) -> None:
    """Read by the code that reads AWS: size, devices, local disks, pods, a price and zones."""
    (row,) = (await ec2.describe_instance_types(InstanceTypes=[name]))["InstanceTypes"]
    offering = Offering("us-west-2a", "on-demand", bundled_prices("us-west-2")[name])
    found = build_instance_type(
        row,
        offerings=[offering],
        region="us-west-2",
        settings=ModelSettings(),
        limits=vpc_limits(),
        bandwidth=network_bandwidth(),
    )
    assert found is not None
    vcpus, memory, device, devices, device_memory, disk_gb, pods = expected
    labels = found.labels
    assert (row["VCpuInfo"]["DefaultVCpus"], row["MemoryInfo"]["SizeInMiB"]) == (vcpus, memory)
    assert found.capacity[device] == devices
    assert labels["karpenter.k8s.aws/instance-gpu-memory"] == (str(device_memory),)
    assert labels["karpenter.k8s.aws/instance-local-nvme"] == (str(disk_gb),)
    assert found.capacity["pods"] == pods
    zones = await ec2.describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [name]}]
    )
    assert zones["InstanceTypeOfferings"]


async def test_offerings_and_zones_are_those_of_the_region(
    ec2: Any, control: ControlClient
) -> None:
    zones = await ec2.describe_availability_zones()
    names = {zone["ZoneName"]: zone["ZoneId"] for zone in zones["AvailabilityZones"]}
    assert names["us-west-2a"].startswith("usw2-az")
    offered = await ec2.describe_instance_type_offerings(
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": ["m5.large"]}],
    )
    assert {row["Location"] for row in offered["InstanceTypeOfferings"]} <= set(names)


async def test_spot_prices_are_a_share_of_on_demand_and_paged(
    ec2: Any, control: ControlClient
) -> None:
    history = await ec2.describe_spot_price_history(
        InstanceTypes=["m5.large"], ProductDescriptions=["Linux/UNIX"]
    )
    prices = {
        row["AvailabilityZone"]: float(row["SpotPrice"]) for row in history["SpotPriceHistory"]
    }
    assert all(0.25 * 0.096 <= price <= 0.60 * 0.096 for price in prices.values())
    assert len(set(prices.values())) > 1
    page = await ec2.describe_spot_price_history(MaxResults=50)
    assert len(page["SpotPriceHistory"]) == 50
    assert page["NextToken"]


async def test_spot_prices_of_another_product_are_none(ec2: Any, control: ControlClient) -> None:
    history = await ec2.describe_spot_price_history(ProductDescriptions=["Windows"])
    assert history["SpotPriceHistory"] == []


async def test_on_demand_prices_are_the_listed_ones(aws: Callable[..., Any]) -> None:
    pricing = await aws("pricing")
    filters = [
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-2"},
        {"Type": "TERM_MATCH", "Field": "instanceType", "Value": "m5.large"},
        {"Type": "TERM_MATCH", "Field": "operatingSystem", "Value": "Linux"},
    ]
    answer = await pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)
    (text,) = answer["PriceList"]
    product = json.loads(text)
    (term,) = product["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    assert float(dimension["pricePerUnit"]["USD"]) == 0.096
    assert product["product"]["attributes"]["instanceType"] == "m5.large"


async def test_products_come_in_pages_until_all_offered_types_are_shown(
    aws: Callable[..., Any],
) -> None:
    pricing = await aws("pricing")
    filters = [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-2"}]
    pages = [
        len(page["PriceList"])
        async for page in pricing.get_paginator("get_products").paginate(
            ServiceCode="AmazonEC2", Filters=filters
        )
    ]
    assert max(pages) == 100
    assert sum(pages) > 1300


@pytest.mark.parametrize(
    ("parameter", "architecture", "name"),
    [
        (IMAGE_PARAMETER, "x86_64", "amazon-eks-node-al2023-x86_64-standard-1.32-v20260101"),
        (
            "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-arm64/recommended/image_id",
            "arm64",
            "amazon-eks-arm64-node-1.32-v20260101",
        ),
        (
            "/aws/service/eks/optimized-ami/1.32/amazon-linux-2/recommended/image_id",
            "x86_64",
            "amazon-eks-node-1.32-v20260101",
        ),
        (
            "/aws/service/bottlerocket/aws-k8s-1.32/arm64/latest/image_id",
            "arm64",
            "bottlerocket-aws-k8s-1.32-arm64-v1.50.0",
        ),
    ],
)
async def test_an_image_parameter_leads_to_a_described_image(
    aws: Callable[..., Any], ec2: Any, parameter: Any, architecture: str, name: str
) -> None:
    """LCH-02 to LCH-04: paths of images by family."""
    ssm = await aws("ssm")
    image_id = (await ssm.get_parameter(Name=parameter))["Parameter"]["Value"]
    (image,) = (await ec2.describe_images(ImageIds=[image_id]))["Images"]
    assert (image["Name"], image["Architecture"]) == (name, architecture)
    assert image["ImageOwnerAlias"] == "amazon"
    assert image["CreationDate"].startswith("2026-01-01")


@pytest.mark.parametrize(
    "parameter",
    [
        IMAGE_PARAMETER.replace("standard", "gold"),
        "/aws/service/bottlerocket/aws-k8s-1.32/x86_64/9.9.9/image_id",
    ],
)
async def test_an_unpublished_image_parameter_is_not_found(
    aws: Callable[..., Any], parameter: str
) -> None:
    ssm = await aws("ssm")
    with pytest.raises(ClientError) as refused:
        await ssm.get_parameter(Name=parameter)
    assert refused.value.response["Error"]["Code"] == "ParameterNotFound"


async def test_images_are_found_by_owner_and_name_without_ssm(
    ec2: Any, control: ControlClient
) -> None:
    answer = await ec2.describe_images(
        Owners=["amazon"], Filters=[{"Name": "name", "Values": ["amazon-eks-node-1.31-*"]}]
    )
    assert len(answer["Images"]) == 1


async def test_the_seed_has_what_a_cluster_has(
    aws: Callable[..., Any], ec2: Any, control: ControlClient
) -> None:
    discovery = [{"Name": "tag:karpenter.sh/discovery", "Values": ["dovetail-local"]}]
    subnets = (await ec2.describe_subnets(Filters=discovery))["Subnets"]
    assert sorted(subnet["AvailabilityZone"] for subnet in subnets) == [
        "us-west-2a",
        "us-west-2b",
        "us-west-2c",
    ]
    assert all(subnet["AvailableIpAddressCount"] == 8187 for subnet in subnets)
    assert len((await ec2.describe_security_groups(Filters=discovery))["SecurityGroups"]) == 1
    cluster = await (await aws("eks")).describe_cluster(name="dovetail-local")
    assert cluster["cluster"]["version"] == "1.32"
    assert cluster["cluster"]["status"] == "ACTIVE"
    profile = await (await aws("iam")).get_instance_profile(
        InstanceProfileName="KarpenterNodeInstanceProfile-dovetail-local"
    )
    assert profile["InstanceProfile"]["Roles"]
    queue = await (await aws("sqs")).get_queue_url(QueueName="dovetail-local")
    assert queue["QueueUrl"].endswith("/dovetail-local")
    assert (await (await aws("sts")).get_caller_identity())["Account"]


async def test_there_are_no_reservations_and_no_placement_groups(
    ec2: Any, control: ControlClient
) -> None:
    reservations = await ec2.describe_capacity_reservations()
    assert reservations["CapacityReservations"] == []
    assert (await ec2.describe_placement_groups())["PlacementGroups"] == []
