"""Real types as moto describes them, models built from them, and a connection to the emulator."""

from __future__ import annotations

import asyncio
import gzip
import json
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
import pytest_asyncio

from shared.cloud.catalogue.instance_model import ModelSettings, build_instance_type
from shared.cloud.catalogue.reference_data import network_bandwidth, vpc_limits
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.descriptions import compact
from shared.concurrency.clock import SystemClock
from shared.domain.instance_types.size_settings import USUAL, SizeSettings
from shared.domain.instance_types.sizes import adapted
from shared.domain.instance_types.types import InstanceType, Offering

BuildModel = Callable[..., InstanceType | None]


@pytest.fixture(scope="session")
def instance_types() -> dict[str, dict[str, Any]]:
    """What EC2 says of each type that moto knows: moto's own table, without the second that its import takes."""
    moto = find_spec("moto")
    assert moto is not None
    assert moto.origin is not None
    table = Path(moto.origin).parent / "ec2/resources/instance_types.json.gz"
    found: dict[str, dict[str, Any]] = orjson.loads(gzip.decompress(table.read_bytes()))
    return found


@pytest.fixture(scope="session")
def describe(instance_types: dict[str, dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    """``describe("m5.large")``: a fresh DescribeInstanceTypes item, cut as ``Ec2`` cuts it."""
    return lambda name: compact(instance_types[name])


@pytest.fixture(scope="session")
def build(describe: Callable[[str], dict[str, Any]]) -> BuildModel:
    """``build("m5.large", sizes=..., settings=..., **changes)``: the model of a real type."""

    def build_model(
        name: str,
        *,
        sizes: SizeSettings = USUAL,
        settings: ModelSettings | None = None,
        offerings: Sequence[Offering] = (),
        **changes: Any,
    ) -> InstanceType | None:
        built = build_instance_type(
            describe(name) | changes,
            offerings=offerings,
            region="us-west-2",
            settings=settings or ModelSettings(),
            limits=vpc_limits(),
            bandwidth=network_bandwidth(),
            zone_ids={"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1"},
        )
        return built and adapted(built, sizes)

    return build_model


class Control:
    """The emulator's control endpoint (``/_dovetail/...``)."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Steer the emulator; the JSON answer."""
        return await asyncio.to_thread(self._post, path, body)

    async def fault(self, action: str, code: str, **fields: Any) -> None:
        """Let the next calls of ``action`` fail."""
        await self.post("faults", {"action": action, "code": code} | fields)

    async def calls(self, action: str) -> list[dict[str, Any]]:
        """The recorded calls of one action, oldest first."""

        def read() -> list[dict[str, Any]]:
            url = f"{self._url}/_dovetail/calls?action={action}"
            with urllib.request.urlopen(url, timeout=60) as answer:
                found: list[dict[str, Any]] = json.loads(answer.read())["calls"]
            return found

        return await asyncio.to_thread(read)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self._url}/_dovetail/{path}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.loads(answer.read() or b"{}")
        return found


@pytest.fixture(scope="session")
def control(aws_emulator_url: str) -> Control:
    return Control(aws_emulator_url)


@pytest.fixture(scope="session", autouse=True)
def credentials() -> Iterator[None]:
    """Any credentials do for the emulator; the machine's own must not be used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.delenv("AWS_PROFILE", raising=False)
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloud(aws_emulator_url: str, control: Control) -> AsyncIterator[Cloud]:
    """One connection per test module, to a fresh emulator: making the EC2 client takes a quarter of a second."""
    await control.post("reset", {})
    connected = await Cloud.connect(
        region="us-west-2",
        endpoint_url=aws_emulator_url,
        clock=SystemClock(),
        random=Random(1),
        user_agent="dovetail-tests",
    )
    try:
        yield connected
    finally:
        await connected.close()
