"""One reading of all parts. Each part is bounded in time, and what it cannot read is said by input.

Machines and launch records are read before instances: an instance that starts in between is too young to be judged,
and one that ends in between has its machine still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping
from typing import Any, TypeVar

from cli.operations.audit.picture import Input, Mirror, Queue, Reading
from cli.operations.audit.reading.cloud import read_instances
from cli.operations.audit.reading.cluster import ClusterLists
from cli.operations.audit.reading.redis import queues_in, read_mirror, read_queues
from cli.operations.console_queues import queues_of
from cli.operations.doctor.cloud import CREDENTIALS, cloud_of
from cli.operations.doctor.finding import Installation
from cli.operations.doctor.redis import REACH
from cli.stack.bus import connected_bus
from cli.stack.requests import is_in_cluster
from shared.cloud.ec2.records import Instance
from shared.domain import labels as keys
from shared.errors import ConfigurationError, DovetailError, Unauthorized
from shared.kube.raw_requests import server_time

PARTS: Mapping[str, tuple[Input, ...]] = {
    "cluster": ("machines", "records", "nodes", "pools", "classes", "budgets", "pods"),
    "ec2": ("instances",),
    "queues": ("queues",),
    "mirror": ("mirror",),
}
"""What can be left out with ``--skip``, and what it is read for."""
PART_SECONDS = 120.0
Result = TypeVar("Result")


async def read(installation: Installation, skipped: Collection[str] = ()) -> Reading:
    """Everything that can be read; ``skipped``: parts that are not."""
    unread = _Unread(skipped)
    at, silent = await _time(installation)
    lists = ClusterLists(installation.kube)
    if silent:
        unread.why |= dict.fromkeys((*PARTS["cluster"], *PARTS["mirror"]), silent)
    elif "cluster" not in skipped:
        await unread.bounded(PARTS["cluster"], lists.read())
        unread.why |= lists.unread
    found: dict[str, Any] = {name: tuple(records) for name, records in lists.found.items()}
    found.pop("classes", None)
    cluster = installation.cluster or _managed_by(found)
    if "ec2" not in skipped:
        instances = _instances(installation, cluster, found)
        found["instances"] = tuple(await unread.bounded(PARTS["ec2"], instances) or ())
    if "queues" not in skipped:
        queues = _queues(installation, cluster, at)
        found["queues"] = tuple(await unread.bounded(PARTS["queues"], queues) or ())
    if "mirror" not in skipped and not silent:
        found["mirror"] = await unread.bounded(PARTS["mirror"], _mirror(installation, cluster))
    return Reading(
        at, leaving=tuple(lists.leaving), unreadable=tuple(lists.unreadable),
        limits_at=lists.limits_at, unread=unread.why, skipped=unread.skipped, **found,
    )  # fmt: skip


async def _time(installation: Installation) -> tuple[float, str]:
    """(the API server's clock, empty), or (this machine's, why the API server does not answer)."""
    try:
        seen = await server_time(installation.kube.connection)
    except DovetailError as error:
        return installation.clock.now(), error.message
    return (installation.clock.now() if seen is None else seen), ""


class _Unread:
    """What could not be read, by input, and what was not to be read."""

    def __init__(self, skipped: Collection[str]) -> None:
        self.why: dict[Input, str] = {}
        self.skipped = frozenset(one for part in skipped for one in PARTS[part])

    async def bounded(self, inputs: Collection[Input], work: Awaitable[Result]) -> Result | None:
        """What ``work`` gives; None, and a note for each input, when it fails or takes too long."""
        try:
            async with asyncio.timeout(PART_SECONDS):
                return await work
        except TimeoutError:
            why = f"it took more than {PART_SECONDS:.0f} s"
        except DovetailError as error:
            why = error.message
        self.why |= dict.fromkeys(inputs, why)
        return None


def _managed_by(found: Mapping[str, Any]) -> str:
    """The cluster's name as the nodes' annotation has it; empty when they have none, or several."""
    names = {node.annotations.get(keys.MANAGED_BY, "") for node in found.get("nodes", ())} - {""}
    return names.pop() if len(names) == 1 else ""


async def _instances(
    installation: Installation, cluster: str, found: Mapping[str, Any]
) -> list[Instance]:
    if not cluster:
        raise ConfigurationError("EC2: CLUSTER_NAME is not set, by which instances are found")
    try:
        async with cloud_of(installation) as cloud:
            return await read_instances(cloud, cluster, found.get("machines", ()))
    except ConfigurationError as error:
        raise ConfigurationError(f"EC2: {error.message}: {CREDENTIALS}") from error
    except Unauthorized as error:
        message = f"EC2: the right is ec2:DescribeInstances: {error.message}"
        raise Unauthorized(message) from error


async def _queues(installation: Installation, cluster: str, at: float) -> list[Queue]:
    url, console = _redis_url(installation), installation.services.get("console", "")
    if not url and is_in_cluster(console):
        return queues_in(await queues_of(installation.kube, console), at)
    async with connected_bus(_known(url), _named(cluster)) as bus:
        return await read_queues(bus)


async def _mirror(installation: Installation, cluster: str) -> Mirror:
    async with connected_bus(_known(_redis_url(installation)), _named(cluster)) as bus:
        return await read_mirror(bus, installation.kube)


def _redis_url(installation: Installation) -> str:
    return installation.variables.get("REDIS_URL", "")


def _known(url: str) -> str:
    if not url:
        raise ConfigurationError(f"REDIS_URL is not set: {REACH}")
    return url


def _named(cluster: str) -> str:
    if not cluster:
        raise ConfigurationError("Redis: CLUSTER_NAME is not set, with which its keys begin")
    return cluster
