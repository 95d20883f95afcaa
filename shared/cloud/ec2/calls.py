"""EC2 calls: the reads, and the three writes (fleets, tags, terminations).

Reads are paged, retried, and parsed off the event loop when large. Writes are sent once; the caller of ``create_fleet``
passes the whole request with its ClientToken, and repeats it unchanged after a ``TransientError`` (F1).

What may go wrong: EC2 is eventually consistent, so a new instance may be missing from ``instances``
for a minute, and a NotFound from ``terminate`` is not proof of termination (F20).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from shared.cloud.catalogue.pricing import Priced, SpotPool, newest_spot_prices
from shared.cloud.client.calls import Json, ServiceCalls
from shared.cloud.ec2 import records
from shared.cloud.ec2.descriptions import compact
from shared.cloud.ec2.instance_calls import InstanceCalls
from shared.cloud.ec2.selectors import (
    IMAGES,
    SECURITY_GROUPS,
    SUBNETS,
    Filters,
    Query,
    queries,
    tag_filters,
)
from shared.concurrency.clock import Clock, rfc3339
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import DovetailError
from shared.log import get_logger

log = get_logger(__name__)

PAGE = 100
SPOT_PAGE = 1000
LISTED_STATES = ("pending", "running", "stopping", "stopped", "shutting-down")
"""The instance states of a listing by tags (LCH-83). Terminated instances stay visible for an hour; they are left out.
"""
TYPE_FILTERS: Filters = [
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
]
SPOT_PRODUCTS = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]


class Ec2:
    """Calls on one region's EC2. Every method may raise the errors of ``shared.cloud.client.errors``."""

    def __init__(self, calls: ServiceCalls, *, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock
        self._by_id = InstanceCalls(calls)

    async def ping(self) -> None:
        """Check region, network, credentials and permission with a dry run (OPS-12)."""
        try:
            await self._calls.read("describe_instance_types", DryRun=True, MaxResults=5)
        except DovetailError as error:
            if error.context.get("code") != "DryRunOperation":
                raise

    async def instance_types(self) -> list[Json]:
        """DescribeInstanceTypes items, reduced to the fields that the instance model reads (IT-01)."""
        return await self._calls.pages(
            "describe_instance_types",
            "InstanceTypes",
            each=compact,
            Filters=TYPE_FILTERS,
            MaxResults=PAGE,
        )

    async def offerings(self) -> dict[str, tuple[str, ...]]:
        """Instance type -> zones that sell it, sorted."""
        items = await self._calls.pages(
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            MaxResults=1000,
        )
        zones: dict[str, set[str]] = {}
        for item in items:
            if item.get("InstanceType") and item.get("Location"):
                zones.setdefault(item["InstanceType"], set()).add(item["Location"])
        return {name: tuple(sorted(found)) for name, found in zones.items()}

    async def zones(self) -> dict[str, str]:
        """Available zone -> zone id, which names the same location in every account (IT-41)."""
        answer = await self._calls.read(
            "describe_availability_zones", Filters=[{"Name": "state", "Values": ["available"]}]
        )
        found = answer.get("AvailabilityZones") or ()
        return {z["ZoneName"]: z.get("ZoneId", "") for z in found if z.get("ZoneName")}

    async def spot_prices(self) -> Priced[SpotPool]:
        """The newest spot price of each (type, zone) (IT-06)."""
        items = await self._calls.pages(
            "describe_spot_price_history",
            "SpotPriceHistory",
            ProductDescriptions=SPOT_PRODUCTS,
            StartTime=datetime.fromtimestamp(self._clock.now(), UTC),
            MaxResults=SPOT_PAGE,
        )
        return await asyncio.to_thread(newest_spot_prices, items)

    async def subnets(self, terms: Iterable[SelectorTerm]) -> list[records.Subnet]:
        """Subnets that any term selects (EC-01), those with most free addresses first (LCH-10).

        Raises InvalidObject for a term that would select everything.
        """
        items = await self._described("describe_subnets", "Subnets", queries(terms, SUBNETS))
        found = {item["SubnetId"]: records.subnet_from(item) for item in items}
        return sorted(found.values(), key=lambda subnet: (-subnet.available_ips, subnet.id))

    async def security_groups(self, terms: Iterable[SelectorTerm]) -> list[records.SecurityGroup]:
        """Security groups that any term selects (EC-02, LCH-13), sorted by id."""
        selected = queries(terms, SECURITY_GROUPS)
        items = await self._described("describe_security_groups", "SecurityGroups", selected)
        found = {
            i["GroupId"]: records.SecurityGroup(i["GroupId"], i.get("GroupName", "")) for i in items
        }
        return sorted(found.values(), key=lambda group: group.id)

    async def images(self, terms: Iterable[SelectorTerm]) -> list[records.Image]:
        """Images that any term selects by id, name, owner or tags (EC-03); newest first, deprecated ones last.

        EC2 knows no aliases and SSM parameters: the caller resolves them to ids first.
        """
        items = await self._described("describe_images", "Images", queries(terms, IMAGES))
        now = rfc3339(self._clock.now())
        found = list(
            {item["ImageId"]: records.image_from(item, now_rfc3339=now) for item in items}.values()
        )
        found.sort(key=lambda image: (image.created_at, image.id), reverse=True)
        return sorted(found, key=lambda image: image.deprecated)

    async def _described(self, operation: str, key: str, selected: list[Query]) -> list[Json]:
        """The items of all queries; an item that two queries match is listed twice."""
        answers = await asyncio.gather(
            *(self._calls.pages(operation, key, **_arguments(query)) for query in selected)
        )
        return [item for answer in answers for item in answer]

    async def placement_groups(self, selector: Mapping[str, str]) -> list[records.PlacementGroup]:
        """The available placement groups with this ``name`` or ``id`` (EC-06); ``selector`` has one of the two keys."""
        names = {"name": "group-name", "id": "group-id"}
        filters = [{"Name": names[key], "Values": [value]} for key, value in selector.items()]
        answer = await self._calls.read("describe_placement_groups", Filters=filters)
        found = map(records.placement_group_from, answer.get("PlacementGroups") or ())
        return [group for group in found if group.state == "available"]

    async def capacity_reservations(self) -> list[records.CapacityReservation]:
        """All active capacity reservations that this account may use, sorted by id."""
        items = await self._calls.pages(
            "describe_capacity_reservations",
            "CapacityReservations",
            Filters=[{"Name": "state", "Values": ["active"]}],
            MaxResults=1000,
        )
        return sorted(map(records.capacity_reservation_from, items), key=lambda one: one.id)

    async def snapshot_sizes(self, ids: Iterable[str]) -> dict[str, int]:
        """Snapshot id -> GiB; an unknown id is absent."""
        filters = [{"Name": "snapshot-id", "Values": sorted(set(ids))}]
        items = await self._calls.pages("describe_snapshots", "Snapshots", Filters=filters)
        return {item["SnapshotId"]: int(item["VolumeSize"]) for item in items}

    async def create_fleet(self, request: Json) -> records.FleetResult:
        """CreateFleet with exactly ``request`` (LCH-50), which must hold a ClientToken.

        Raises Throttled, Unreachable, Unavailable (repeat with the same token), NotFound (LCH-25:
        template), InsufficientCapacity, Unauthorized, or LaunchRejected with ``context["code"]``
        (``IdempotentParameterMismatch``, ``IdempotentInstanceTerminated``, ...).
        """
        if not request.get("ClientToken"):
            raise ValueError("create_fleet needs a ClientToken: a repeat would launch twice")
        answer = await self._calls.write("create_fleet", launching=True, **request)
        return records.fleet_result_from(answer)

    async def instances(
        self,
        *,
        ids: Iterable[str] | None = None,
        tags: Mapping[str, str] | None = None,
        tag_keys: tuple[str, ...] = (),
    ) -> list[records.Instance]:
        """Instances by id (in every state; an unknown id is absent) or by tags (in ``LISTED_STATES``)."""
        if ids is None and not tags and not tag_keys:
            raise ValueError(
                "instances needs ids or tags: the account has instances of other owners"
            )
        filters = tag_filters(tags or {}, tag_keys)
        if ids is None:
            listed = [*filters, {"Name": "instance-state-name", "Values": list(LISTED_STATES)}]
            return await self._by_id.listed(listed)
        if filters:
            raise ValueError("instances takes ids or tags, not both")
        return await self._by_id.described(ids)

    async def terminate(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Terminate all; returns the ids that EC2 does not know (no proof of termination, F20). Idempotent."""
        return await self._by_id.terminated(ids)

    async def tag(self, ids: Sequence[str], tags: dict[str, str]) -> None:
        """Set tags on instances. Raises NotFound while EC2 does not know a new one yet (F20)."""
        if ids and tags:
            await self._calls.write("create_tags", Resources=list(ids), Tags=records.tags_to(tags))


def _arguments(query: Query) -> Json:
    owners = {"Owners": list(query.owners)} if query.owners else {}
    return {"Filters": query.filters, **owners} if query.filters else owners
