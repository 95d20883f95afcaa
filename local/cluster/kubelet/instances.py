"""The instances of the AWS emulator, read from its control endpoint ``GET /_dovetail/instances``.

The endpoint answers ``{"instances": [...]}``; units: seconds since the epoch, MiB. An emulator that does not answer, or
answers invalid data, raises Unreachable or Unavailable; the kubelets then keep their last state.
"""

from __future__ import annotations

from typing import Any, Protocol

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from shared.errors import Unavailable, Unreachable

PATH = "/_dovetail/instances"
TIMEOUT_SECONDS = 5.0


class Accelerator(BaseModel):
    """Devices of one kind in an instance."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    name: str = ""
    manufacturer: str = "NVIDIA"
    count: int = 0


class Instance(BaseModel):
    """One EC2 instance as its kubelet sees it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    instance_id: str
    instance_type: str
    zone: str
    zone_id: str | None = None
    region: str
    state: str
    launched_at: float
    private_dns_name: str
    private_ip: str | None = None
    architecture: str = "x86_64"
    image_id: str | None = None
    image_name: str | None = None
    user_data: str | None = None
    tags: dict[str, str] = Field(default_factory=dict)
    lifecycle: str = "on-demand"
    vcpus: int
    memory_mib: int = Field(validation_alias="memoryMiB")
    max_pods: int
    max_volumes: int = 26
    """EBS volumes beside the root volume."""
    largest_volume_gib: int = Field(default=20, validation_alias="largestVolumeGiB")
    instance_store_gb: int = Field(default=0, validation_alias="instanceStoreGB")
    """All local disks together, in units of 10^9 bytes."""
    gpus: list[Accelerator] = Field(default_factory=list)


INSTANCES = TypeAdapter(dict[str, list[Instance]])


class InstanceSource(Protocol):
    """Where the kubelets' machines come from."""

    async def instances(self) -> dict[str, Instance]:
        """Every instance by id. Raises Unreachable, Unavailable."""
        ...


class InstanceClient:
    """Client of the emulator. Close it after use."""

    def __init__(self, endpoint: str) -> None:
        self._url = endpoint.rstrip("/") + PATH
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        self._session = aiohttp.ClientSession(timeout=timeout)

    async def instances(self) -> dict[str, Instance]:
        """Every instance by id, terminated ones included while the emulator still lists them."""
        body = await self._get()
        try:
            parsed = INSTANCES.validate_json(body)
        except ValidationError as error:
            raise Unavailable(f"{PATH} answered something else: {error}", url=self._url) from error
        return {instance.instance_id: instance for instance in parsed.get("instances", [])}

    async def _get(self) -> bytes:
        try:
            async with self._session.get(self._url) as answer:
                if answer.status != 200:
                    text = f"{PATH} answered {answer.status}"
                    raise Unavailable(text, url=self._url)
                return await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"no answer from the AWS emulator: {error}", url=self._url) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def __aenter__(self) -> InstanceClient:
        return self

    async def __aexit__(self, *_error: Any) -> None:
        await self.close()
