"""The AWS emulator as a process for tests: started once per session on a free port, ended by its
own pid.

Every test may ask for ``aws_emulator_url``. Whoever needs an empty one resets it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from aiobotocore.session import AioSession, get_session

START_SECONDS = 60.0
STOP_SECONDS = 5.0
REPOSITORY = Path(__file__).parents[3]


@contextlib.contextmanager
def running_emulator(directory: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Start ``python -m local.aws`` with ``settings``, yield its URL, end it."""
    url_file = directory / "aws-emulator.url"
    process = start_emulator(url_file, settings)
    try:
        yield wait_for_url(process, url_file)
    finally:
        stop_emulator(process)


def start_emulator(url_file: Path, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the process; it writes its URL to ``url_file`` once it answers."""
    environment = {**os.environ, "AWS_EMULATOR_URL_FILE": str(url_file), **settings}
    return subprocess.Popen([sys.executable, "-m", "local.aws"], cwd=REPOSITORY, env=environment)


def wait_for_url(process: subprocess.Popen[bytes], url_file: Path) -> str:
    """The URL; fails when the process ends first or takes longer than ``START_SECONDS``."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(
                f"the AWS emulator ended with status {process.returncode} before it answered"
            )
        if url_file.exists() and (url := url_file.read_text()):
            return url
        time.sleep(0.05)
    pytest.fail(f"the AWS emulator did not answer within {START_SECONDS} s")


def stop_emulator(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL if it lingers."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)


@pytest.fixture(scope="session")
def aws_emulator_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of one emulator for the whole session, with short timings. POST /_dovetail/reset
    between tests.
    """
    settings = {
        "AWS_EMULATOR_PORT": "0",
        "AWS_REGION": "us-west-2",
        "CLUSTER_NAME": "dovetail-local",
        "INSTANCE_PENDING_SECONDS": "0.2",
        "INSTANCE_SHUTTING_DOWN_SECONDS": "0.2",
    }
    with running_emulator(tmp_path_factory.mktemp("aws-emulator"), settings) as url:
        yield url


@functools.cache
def aws_session() -> AioSession:
    """One for all clients: each session reads the service models anew, which takes EC2's 0.3 s."""
    return get_session()


def whole_ec2(url: str) -> AbstractAsyncContextManager[Any]:
    """A client with every operation of EC2: for what Dovetail itself never does, such as making snapshots."""
    return _whole("ec2", url)


def whole_iam(url: str) -> AbstractAsyncContextManager[Any]:
    """The same of IAM: for roles, and for whose profile one is."""
    return _whole("iam", url)


def whole_sqs(url: str) -> AbstractAsyncContextManager[Any]:
    """The same of SQS: for sending, and for the number of messages."""
    return _whole("sqs", url)


@contextlib.asynccontextmanager
async def _whole(service: str, url: str) -> AsyncIterator[Any]:
    async with aws_session().create_client(
        service,
        region_name="us-west-2",
        endpoint_url=url,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    ) as client:
        yield client


async def make_snapshot(url: str, gib: int) -> str:
    """Id of a snapshot of this size."""
    async with whole_ec2(url) as client:
        volume = await client.create_volume(AvailabilityZone="us-west-2a", Size=gib)
        snapshot = await client.create_snapshot(VolumeId=volume["VolumeId"])
    return str(snapshot["SnapshotId"])


async def make_placement_group(url: str, name: str, strategy: str, partitions: int = 0) -> str:
    """Id of a group of this strategy: cluster, spread, or partition with so many partitions."""
    more = {"PartitionCount": partitions} if partitions else {}
    async with whole_ec2(url) as client:
        made = await client.create_placement_group(GroupName=name, Strategy=strategy, **more)
    return str(made["PlacementGroup"]["GroupId"])


async def spot_instance(ec2: Any, cluster: str) -> str:
    """Id of a new m5.large on spot that the cluster owns. ``ec2``: a client of ``whole_ec2``."""
    return await _instance(ec2, cluster, {}, InstanceMarketOptions={"MarketType": "spot"})


async def managed_instance(ec2: Any, cluster: str) -> str:
    """Id of a new m5.large of somebody's node group, which asks to be handled when its group ends it."""
    return await _instance(ec2, cluster, {"aws-node-termination-handler/managed": ""})


async def pooled_instance(ec2: Any, cluster: str) -> str:
    """Id of a new m5.large with the tags of a NodePool's instances, which no machine names."""
    tags = {"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default"}
    return await _instance(ec2, cluster, {**tags, "eks:eks-cluster-name": cluster})


async def _instance(ec2: Any, cluster: str, tags: Mapping[str, str], **more: Any) -> str:
    amd64 = [{"Name": "architecture", "Values": ["x86_64"]}]
    image = (await ec2.describe_images(Filters=amd64))["Images"][0]["ImageId"]
    owned = {f"kubernetes.io/cluster/{cluster}": "owned", **tags}
    listed = [{"Key": key, "Value": value} for key, value in owned.items()]
    started = await ec2.run_instances(
        InstanceType="m5.large", ImageId=image, MinCount=1, MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": listed}], **more,
    )  # fmt: skip
    return str(started["Instances"][0]["InstanceId"])
