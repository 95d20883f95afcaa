"""The control endpoint: the contract of the instance list, faults, recorded calls, reset,
validation.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, HTTPClientError

from tests.local.aws.conftest import ControlClient, Network, eventually, fleet, instance_ids

INSTANCE_FIELDS = {
    "architecture",
    "gpus",
    "imageId",
    "imageName",
    "instanceId",
    "instanceStoreGB",
    "instanceType",
    "largestVolumeGiB",
    "launchedAt",
    "lifecycle",
    "maxPods",
    "memoryMiB",
    "maxVolumes",
    "privateDnsName",
    "privateIp",
    "region",
    "state",
    "tags",
    "userData",
    "vcpus",
    "zone",
    "zoneId",
}


async def test_health_is_ok(control: ControlClient) -> None:
    assert control.get("health") == {"ok": True}


async def test_the_instance_list_has_every_field_of_the_contract(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "red"}]}]
    before = time.time()
    await ec2.create_fleet(**fleet(network, [("m5.large", "a")], TagSpecifications=tags))
    (row,) = control.get("instances")["instances"]
    assert set(row) == INSTANCE_FIELDS
    assert row["instanceType"] == "m5.large"
    assert (row["zone"], row["region"]) == ("us-west-2a", "us-west-2")
    assert row["zoneId"].startswith("usw2-az")
    assert row["state"] in {"pending", "running"}
    assert before - 1 <= row["launchedAt"] <= time.time()
    assert row["privateDnsName"] == (
        f"ip-{row['privateIp'].replace('.', '-')}.us-west-2.compute.internal"
    )
    assert row["architecture"] == "x86_64"
    assert row["imageId"] == network.image_id
    (image,) = (await ec2.describe_images(ImageIds=[network.image_id]))["Images"]
    assert row["imageName"] == image["Name"]
    assert base64.b64decode(row["userData"]) == b"hello"
    assert row["tags"]["team"] == "red"
    assert row["lifecycle"] == "on-demand"
    assert (row["vcpus"], row["memoryMiB"], row["maxPods"]) == (2, 8192, 29)
    assert row["maxVolumes"] == 26, "EC2 says 27, and one is the root volume"
    assert row["gpus"] == []
    assert (row["largestVolumeGiB"], row["instanceStoreGB"]) == (20, 0), "as mapped"


async def test_the_instance_list_counts_gpus(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    await ec2.create_fleet(**fleet(network, [("g5.12xlarge", "b")]))
    (row,) = control.get("instances")["instances"]
    assert row["gpus"] == [
        {"name": "A10G", "manufacturer": "NVIDIA", "count": 4, "memoryMiB": 22888}
    ]


async def test_a_fault_before_does_nothing_and_answers_with_its_code(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    fault = {"action": "CreateFleet", "code": "RequestLimitExceeded", "message": "slow", "count": 2}
    control.post("faults", {**fault, "status": 503, "mode": "before"})
    for _ in range(2):
        with pytest.raises(ClientError) as refused:
            await ec2.create_fleet(**fleet(network, [("m5.large", "a")]))
        assert refused.value.response["Error"]["Code"] == "RequestLimitExceeded"
    assert control.states() == {}
    assert instance_ids(await ec2.create_fleet(**fleet(network, [("m5.large", "a")])))


async def test_a_fault_after_did_the_work_and_the_token_finds_it(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """F1: an unknown outcome is repeated with the same token."""
    fault = {"action": "CreateFleet", "code": "InternalError", "message": "lost", "count": 1}
    control.post("faults", {**fault, "status": 500, "mode": "after"})
    request = fleet(network, [("m5.large", "a")], ClientToken="token-1")
    with pytest.raises(ClientError):
        await ec2.create_fleet(**request)
    (instance_id,) = control.states()
    assert instance_ids(await ec2.create_fleet(**request)) == [instance_id]
    assert len(control.states()) == 1


async def test_status_zero_closes_the_connection_after_the_work(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    control.post("faults", {"action": "CreateFleet", "status": 0, "mode": "after"})
    with pytest.raises(HTTPClientError):
        await ec2.create_fleet(**fleet(network, [("m5.large", "a")]))
    assert len(control.states()) == 1


async def test_a_fault_in_a_json_service_has_that_services_form(
    aws: Callable[..., Any], control: ControlClient
) -> None:
    sqs = await aws("sqs")
    control.post(
        "faults", {"action": "ReceiveMessage", "code": "ThrottlingException", "status": 400}
    )
    url = (await sqs.get_queue_url(QueueName="dovetail-local"))["QueueUrl"]
    with pytest.raises(ClientError) as refused:
        await sqs.receive_message(QueueUrl=url)
    assert refused.value.response["Error"]["Code"] == "ThrottlingException"


async def test_an_inaccessible_key_ends_the_instance_at_once(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    """LCH-67: an instance that ends at once."""
    control.post("faults", {"action": "KMSDecrypt"})
    ids = instance_ids(await ec2.create_fleet(**fleet(network, [("m5.large", "a")])))
    await eventually(lambda: control.states()[ids[0]] == "terminated")
    described = await ec2.describe_instances(InstanceIds=ids)
    instance = described["Reservations"][0]["Instances"][0]
    assert instance["StateReason"]["Code"] == "Client.InternalError"


async def test_calls_are_recorded_with_parameters_and_code(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    await ec2.create_fleet(**fleet(network, [("m5.large", "a")], ClientToken="token-1"))
    control.post("faults", {"action": "CreateFleet", "code": "RequestLimitExceeded", "status": 503})
    with pytest.raises(ClientError):
        await ec2.create_fleet(**fleet(network, [("m5.large", "a")], ClientToken="token-2"))
    done, failed = control.get("calls?action=CreateFleet")["calls"]
    assert set(done) == {"at", "service", "action", "parameters", "code", "status"}
    assert (done["service"], done["action"], done["code"]) == ("ec2", "CreateFleet", None)
    assert done["parameters"]["ClientToken"] == "token-1"
    overrides = done["parameters"]["LaunchTemplateConfigs"][0]["Overrides"]
    assert overrides[0]["InstanceType"] == "m5.large"
    assert failed["code"] == "RequestLimitExceeded"
    assert failed["parameters"]["ClientToken"] == "token-2"
    actions = {call["action"] for call in control.get("calls")["calls"]}
    assert {"DescribeSubnets", "CreateLaunchTemplate"} <= actions


def test_reset_makes_time_real_again(control: ControlClient) -> None:
    control.post("clock", {"stepSeconds": 7200})
    control.post("reset")
    assert control.post("clock", {"stepSeconds": 1})["now"] < time.time() + 60


async def test_reset_forgets_everything_and_seeds_again(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    pool = {"instanceType": "m5.large", "zone": "us-west-2a", "capacityType": "on-demand"}
    await ec2.create_fleet(**fleet(network, [("m5.large", "a")]))
    control.post("capacity", {**pool, "available": 0})
    control.post("faults", {"action": "DescribeInstances", "count": 5})
    control.post("reset")
    assert control.get("instances") == {"instances": []}
    assert control.get("calls") == {"calls": []}
    assert (await ec2.describe_instances())["Reservations"] == []
    assert (await ec2.describe_launch_templates())["LaunchTemplates"] == []
    discovery = [{"Name": "tag:karpenter.sh/discovery", "Values": ["dovetail-local"]}]
    assert len((await ec2.describe_subnets(Filters=discovery))["Subnets"]) == 3


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("capacity", {"instanceType": "m5.large", "zone": "us-west-2a"}, "capacityType"),
        (
            "capacity",
            {"instanceType": "m5.l", "zone": "us-west-2a", "capacityType": "spot", "available": 1},
            "instanceType",
        ),
        (
            "capacity",
            {"instanceType": "m5.large", "zone": "mars", "capacityType": "spot", "available": 1},
            "zone",
        ),
        ("faults", {"action": "CreateFleet", "mode": "during"}, "mode"),
        ("faults", {"action": "CreateFleet", "colour": "red"}, "colour"),
        ("interruptions", {"kind": "spot"}, "instanceId"),
        ("interruptions", {"kind": "spot", "instanceId": "i-1"}, "instanceId"),
        ("interruptions", {"kind": "earthquake", "instanceId": "i-1"}, "kind"),
        ("settings", {"instancePendingSeconds": -1}, "instancePendingSeconds"),
        ("clock", {"stepSeconds": 0}, "stepSeconds"),
    ],
)
async def test_wrong_input_names_field_and_fix(
    control: ControlClient, path: str, body: dict[str, Any], field: str
) -> None:
    status, answer = control.call("POST", path, body)
    assert status == 400
    assert answer["field"] == field
    assert answer["fix"]


async def test_an_unknown_path_lists_the_known_ones(control: ControlClient) -> None:
    status, answer = control.call("GET", "nothing")
    assert status == 404
    assert "instances" in answer["fix"]


async def test_the_bill_has_the_seconds_since_the_launch_at_the_price_of_the_pool(
    ec2: Any, network: Network, control: ControlClient
) -> None:
    await ec2.create_fleet(**fleet(network, [("m5.large", "a")]))
    await eventually(lambda: bool(control.get("bill")["lines"]))
    control.post("clock", {"stepSeconds": 3600})
    found = control.get("bill")
    (line,) = found["lines"]
    assert (line["instanceType"], line["zone"], line["instances"]) == ("m5.large", "us-west-2a", 1)
    assert 3600 <= line["seconds"] < 3700
    assert found["dollars"] == pytest.approx(line["dollars"])
    assert 0.09 < line["dollars"] / line["seconds"] * 3600 < 0.1
    assert control.get("bill?to=1000")["lines"] == []


def test_a_wrong_time_of_the_bill_is_named(control: ControlClient) -> None:
    status, body = control.call("GET", "bill?from=yesterday")
    assert (status, body["field"]) == (400, "from")
