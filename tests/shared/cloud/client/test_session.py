"""Connecting, and the small services: SSM, SQS, EKS, Price List."""

from __future__ import annotations

import socket
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shared.cloud.client.session import Cloud, Role
from shared.cloud.sqs import QueueMessage
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError, NotFound, Unreachable

FOREIGN = "i-0123456789abcdef0"

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def connect(region: str = "us-west-2", endpoint_url: str | None = None) -> Cloud:
    return await Cloud.connect(
        region=region,
        endpoint_url=endpoint_url,
        clock=SystemClock(),
        random=Random(1),
        user_agent="dovetail-tests",
    )


async def test_a_missing_region_names_the_variable() -> None:
    """OPS-12: checks at the start."""
    with pytest.raises(ConfigurationError, match="AWS_REGION"):
        await connect(region="")


async def test_missing_credentials_say_how_to_give_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="IAM role"):
        await connect()


async def test_a_dead_endpoint_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    cloud = await connect(endpoint_url=url)
    with pytest.raises(Unreachable):
        await cloud.sqs.queue_url("any")
    await cloud.close()
    await cloud.close()


async def test_a_parameter_is_read_or_not_found(cloud: Cloud) -> None:
    """LCH-01: images by SSM parameter."""
    path = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended"
    assert (await cloud.ssm.parameter(f"{path}/image_id")).startswith("ami-")
    with pytest.raises(NotFound):
        await cloud.ssm.parameter("/no/such/parameter")


async def test_the_cluster_tells_what_a_node_needs(cloud: Cloud) -> None:
    """LCH-32: boot data of AL2023; LCH-40: endpoint, certificate and DNS of the cluster."""
    cluster = await cloud.eks.cluster("dovetail-local")
    assert cluster.version == "1.32"
    assert cluster.endpoint.startswith("http")
    assert cluster.certificate_authority
    assert cluster.service_cidr == "10.100.0.0/16"
    with pytest.raises(NotFound):
        await cloud.eks.cluster("no-such-cluster")


async def test_on_demand_prices_are_integers_per_type(cloud: Cloud) -> None:
    """IT-05: on-demand prices."""
    listed = await cloud.pricing.on_demand("us-west-2")
    prices = listed.prices
    assert listed.faults == {}
    assert len(prices) > 500
    assert 50_000 < prices["m5.large"] < 200_000


async def notice_about(
    cloud: Cloud, url: str, instance_id: str, *, visibility_seconds: int
) -> QueueMessage | None:
    """The next delivery that names the instance; state changes of other instances are deleted."""
    for _ in range(20):
        found = await cloud.sqs.receive(url, wait_seconds=0, visibility_seconds=visibility_seconds)
        ours = [one for one in found if instance_id in one.body]
        if ours or not found:
            return ours[0] if ours else None
        await cloud.sqs.delete(url, [one.receipt for one in found])
    raise AssertionError("the queue never ends")


async def test_notices_arrive_and_stay_until_deleted(cloud: Cloud, control: Any) -> None:
    url = await cloud.sqs.queue_url("dovetail-local")
    notice = {"kind": "spot", "instanceId": FOREIGN, "foreign": True}
    await control.post("interruptions", notice)
    first = await notice_about(cloud, url, FOREIGN, visibility_seconds=0)
    assert first is not None
    assert first.sent_at > 1_600_000_000
    again = await notice_about(cloud, url, FOREIGN, visibility_seconds=20)
    assert again is not None
    assert again.id == first.id
    assert await cloud.sqs.delete(url, [again.receipt]) == ()
    assert await notice_about(cloud, url, FOREIGN, visibility_seconds=20) is None


async def test_an_unknown_queue_is_not_found(cloud: Cloud) -> None:
    """LCH-66: codes for not found."""
    with pytest.raises(NotFound):
        await cloud.sqs.queue_url("no-such-queue")


async def test_a_role_is_taken_on_for_all_calls(aws_emulator_url: str) -> None:
    """OPS-04: the emulator's STS says who calls; with a role it is the role's session."""
    arn = "arn:aws:iam::123456789012:role/dovetail"
    cloud = await Cloud.connect(
        region="us-west-2",
        endpoint_url=aws_emulator_url,
        clock=SystemClock(),
        random=Random(1),
        user_agent="dovetail-tests",
        role=Role(arn, 900, "dovetail"),
    )
    sts = await cloud._client("sts", "us-west-2", 10)
    identity = await sts.get_caller_identity()
    await cloud.close()
    assert identity["Arn"] == "arn:aws:sts::123456789012:assumed-role/dovetail/dovetail"


async def test_every_call_is_told_with_its_time_and_its_error(cloud: Cloud) -> None:
    """MET-10: metrics of the cloud."""
    told: list[tuple[str, float, str]] = []
    cloud.observer = lambda *one: told.append(one)
    try:
        await cloud.ec2.ping()
        with pytest.raises(NotFound):
            await cloud.ssm.parameter("/nobody/has/this")
    finally:
        cloud.observer = None
    assert [(method, error) for method, _, error in told][-1] == (
        "GetParameter",
        "ParameterNotFound",
    )
    assert told[0][0] == "DescribeInstanceTypes"
    assert all(seconds >= 0 for _, seconds, _ in told)


async def test_requests_and_their_attempts_are_told_with_their_status(cloud: Cloud) -> None:
    attempts: list[tuple[str, str, int]] = []
    requests: list[tuple[str, str, int]] = []
    cloud.attempt_counter = lambda *one: attempts.append(one[:3])
    cloud.request_counter = lambda *one: requests.append(one[:3])
    try:
        with pytest.raises(NotFound):
            await cloud.ssm.parameter("/nobody/has/this")
    finally:
        cloud.attempt_counter = cloud.request_counter = None
    assert attempts[-1:] == requests[-1:] == [("ssm", "GetParameter", 400)]
