"""EC2: everything Dovetail asks of it and the four things it changes (templates, fleets, tags,
terminations).

Reads are paged, retried and parsed off the loop when large. Writes are sent once; who calls
``create_fleet`` passes the whole pinned request with its ClientToken and repeats it unchanged after
``TransientError`` (F1).

What may go wrong: EC2 is eventually consistent, so a new instance may be missing from ``instances``
for a minute, and a NotFound from ``terminate`` is not proof of termination (F20).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from shared.clock import Clock, rfc3339
from shared.cloud.calls import Json, ServiceCalls
from shared.cloud.descriptions import compact
from shared.cloud.pricing import micro_usd
from shared.cloud.records import (
    FleetResult,
    Image,
    Instance,
    LaunchTemplate,
    SecurityGroup,
    Subnet,
    fleet_result_from,
    image_from,
    instance_from,
    launch_template_from,
    subnet_from,
    tag_specification,
    tags_to,
)
from shared.cloud.selectors import (
    IMAGES,
    SECURITY_GROUPS,
    SUBNETS,
    VALUES_LIMIT,
    Filters,
    Query,
    queries,
    tag_filters,
)
from shared.domain.nodepools import SelectorTerm
from shared.errors import AlreadyExists, DovetailError, NotFound
from shared.log import get_logger

log = get_logger(__name__)

PAGE = 100
SPOT_PAGE = 1000
TERMINATE_BATCH = 500
LISTED_STATES = ("pending", "running", "stopping", "stopped", "shutting-down")
"""LCH-83: what a listing by tag shows. Terminated instances stay visible for an hour; they are left
out.
"""
TYPE_FILTERS: Filters = [
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
]
SPOT_PRODUCTS = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]
_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")


class Ec2:
    """Calls on one region's EC2. Every method may raise any ``shared.errors`` an adapter raises."""

    def __init__(self, calls: ServiceCalls, *, clock: Clock) -> None:
        self._calls = calls
        self._clock = clock

    async def ping(self) -> None:
        """OPS-12: prove region, network, credentials and permission with a dry run."""
        try:
            await self._calls.read("describe_instance_types", DryRun=True, MaxResults=5)
        except DovetailError as error:
            if error.context.get("code") != "DryRunOperation":
                raise

    async def instance_types(self) -> list[Json]:
        """DescribeInstanceTypes items, cut to what the model reads (IT-01)."""
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
            zones.setdefault(item["InstanceType"], set()).add(item["Location"])
        return {name: tuple(sorted(found)) for name, found in zones.items()}

    async def zones(self) -> dict[str, str]:
        """Available zone -> zone id, which is the same place in every account (IT-41)."""
        answer = await self._calls.read(
            "describe_availability_zones", Filters=[{"Name": "state", "Values": ["available"]}]
        )
        return {z["ZoneName"]: z.get("ZoneId", "") for z in answer["AvailabilityZones"]}

    async def spot_prices(self) -> dict[tuple[str, str], int]:
        """(type, zone) -> newest spot price in micro-USD per hour (IT-06)."""
        items = await self._calls.pages(
            "describe_spot_price_history",
            "SpotPriceHistory",
            ProductDescriptions=SPOT_PRODUCTS,
            StartTime=datetime.fromtimestamp(self._clock.now(), UTC),
            MaxResults=SPOT_PAGE,
        )
        return await asyncio.to_thread(newest_spot_prices, items)

    async def subnets(self, terms: Iterable[SelectorTerm]) -> list[Subnet]:
        """Subnets that any term selects (EC-01), those with most free addresses first (LCH-10).

        Raises InvalidObject for a term that would select everything.
        """
        items = await self._described("describe_subnets", "Subnets", queries(terms, SUBNETS))
        found = {item["SubnetId"]: subnet_from(item) for item in items}
        return sorted(found.values(), key=lambda subnet: (-subnet.available_ips, subnet.id))

    async def security_groups(self, terms: Iterable[SelectorTerm]) -> list[SecurityGroup]:
        """Security groups that any term selects (EC-02, LCH-13), sorted by id."""
        asked = queries(terms, SECURITY_GROUPS)
        items = await self._described("describe_security_groups", "SecurityGroups", asked)
        found = {i["GroupId"]: SecurityGroup(i["GroupId"], i.get("GroupName", "")) for i in items}
        return sorted(found.values(), key=lambda group: group.id)

    async def images(self, terms: Iterable[SelectorTerm]) -> list[Image]:
        """Images that any term selects by id, name, owner or tags (EC-03); newest first, deprecated ones last.

        Aliases and SSM parameters are not EC2's: who calls makes ids of them first.
        """
        items = await self._described("describe_images", "Images", queries(terms, IMAGES))
        now = rfc3339(self._clock.now())
        found = list(
            {item["ImageId"]: image_from(item, now_rfc3339=now) for item in items}.values()
        )
        found.sort(key=lambda image: (image.created_at, image.id), reverse=True)
        return sorted(found, key=lambda image: image.deprecated)

    async def _described(self, operation: str, key: str, asked: list[Query]) -> list[Json]:
        """The answers of all queries together; what two of them found is in it twice."""
        answers = await asyncio.gather(
            *(self._calls.pages(operation, key, **_arguments(query)) for query in asked)
        )
        return [item for answer in answers for item in answer]

    async def ensure_launch_template(
        self, name: str, data: Json, tags: dict[str, str]
    ) -> LaunchTemplate:
        """Create the template, or find the one of that name: the name holds the data's hash
        (LCH-20).

        The ClientToken is left to the SDK: with a fixed one EC2 would answer a template deleted
        since.
        """
        try:
            answer = await self._calls.write(
                "create_launch_template",
                launching=True,
                LaunchTemplateName=name,
                LaunchTemplateData=data,
                TagSpecifications=[tag_specification("launch-template", tags)],
            )
        except AlreadyExists:
            return await self._launch_template(name)
        template = launch_template_from(answer["LaunchTemplate"])
        log.debug("created launch template", launch_template_name=name, id=template.id)
        return template

    async def _launch_template(self, name: str) -> LaunchTemplate:
        found = await self._calls.pages(
            "describe_launch_templates", "LaunchTemplates", LaunchTemplateNames=[name]
        )
        if not found:
            raise NotFound(f"launch template {name} disappeared while it was read", name=name)
        return launch_template_from(found[0])

    async def launch_templates(self, tags: Mapping[str, str]) -> list[LaunchTemplate]:
        """Templates that carry all ``tags``; ``*`` as value means the key exists (LCH-22)."""
        items = await self._calls.pages(
            "describe_launch_templates",
            "LaunchTemplates",
            Filters=tag_filters(tags),
        )
        return sorted((launch_template_from(i) for i in items), key=lambda t: t.name)

    async def delete_launch_template(self, name: str) -> None:
        """Delete by name; a template that is gone already is fine."""
        try:
            await self._calls.write("delete_launch_template", LaunchTemplateName=name)
        except NotFound:
            log.debug("launch template is gone already", launch_template_name=name)

    async def create_fleet(self, request: Json) -> FleetResult:
        """CreateFleet with exactly ``request`` (LCH-50), which must hold a ClientToken.

        Raises Throttled, Unreachable, Unavailable (repeat with the same token), NotFound (LCH-25:
        template), InsufficientCapacity, Unauthorized, or LaunchRejected with ``context["code"]``
        (``IdempotentParameterMismatch``, ``IdempotentInstanceTerminated``, ...).
        """
        if not request.get("ClientToken"):
            raise ValueError("create_fleet needs a ClientToken: a repeat would launch twice")
        answer = await self._calls.write("create_fleet", launching=True, **request)
        return fleet_result_from(answer)

    async def check_create_fleet(self, request: Json) -> None:
        """EC-18: a dry run; raises Unauthorized when the permission is missing."""
        try:
            await self._calls.write("create_fleet", launching=True, **request, DryRun=True)
        except DovetailError as error:
            if error.context.get("code") != "DryRunOperation":
                raise

    async def instances(
        self,
        *,
        ids: Iterable[str] | None = None,
        tags: Mapping[str, str] | None = None,
        tag_keys: tuple[str, ...] = (),
    ) -> list[Instance]:
        """Instances by id (in every state; an unknown id is simply absent) or by tags (LCH-83
        states).
        """
        if ids is None and not tags and not tag_keys:
            raise ValueError(
                "instances needs ids or tags: the account holds other people's machines"
            )
        filters = tag_filters(tags or {}, tag_keys)
        if ids is None:
            listed = [*filters, {"Name": "instance-state-name", "Values": list(LISTED_STATES)}]
            return await self._instances(listed)
        wanted = sorted(set(ids))
        found: list[Instance] = []
        for start in range(0, len(wanted), VALUES_LIMIT):
            chunk = {"Name": "instance-id", "Values": wanted[start : start + VALUES_LIMIT]}
            found.extend(await self._instances([*filters, chunk]))
        return found

    async def _instances(self, filters: Filters) -> list[Instance]:
        reservations = await self._calls.pages(
            "describe_instances", "Reservations", Filters=filters, MaxResults=PAGE
        )
        return [instance_from(item) for r in reservations for item in r.get("Instances") or ()]

    async def terminate(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Terminate all; returns the ids EC2 does not know (not proof of termination, F20).
        Idempotent.
        """
        wanted = sorted(set(ids))
        missing: list[str] = []
        for start in range(0, len(wanted), TERMINATE_BATCH):
            missing.extend(await self._terminate(wanted[start : start + TERMINATE_BATCH]))
        return tuple(missing)

    async def _terminate(self, ids: list[str]) -> list[str]:
        """One unknown id fails the whole call, so it is taken out and the rest sent again."""
        missing: list[str] = []
        remaining = ids
        while remaining:
            try:
                await self._calls.write("terminate_instances", InstanceIds=remaining)
                return missing
            except NotFound as error:
                named = set(_INSTANCE_ID.findall(error.message)) & set(remaining)
                if not named and len(remaining) > 1:
                    return missing + await self._terminate_one_by_one(remaining)
                unknown = named or set(remaining)
                missing.extend(sorted(unknown))
                remaining = [one for one in remaining if one not in unknown]
        return missing

    async def _terminate_one_by_one(self, ids: list[str]) -> list[str]:
        missing: list[str] = []
        for one in ids:
            missing.extend(await self._terminate([one]))
        return missing

    async def tag(self, ids: Sequence[str], tags: dict[str, str]) -> None:
        """Set tags on instances. Raises NotFound while EC2 does not know a new one yet (F20)."""
        if ids and tags:
            await self._calls.write("create_tags", Resources=list(ids), Tags=tags_to(tags))


def _arguments(query: Query) -> Json:
    owners = {"Owners": list(query.owners)} if query.owners else {}
    return {"Filters": query.filters, **owners} if query.filters else owners


def newest_spot_prices(items: Iterable[Json]) -> dict[tuple[str, str], int]:
    """The latest entry of each (type, zone); entries without a usable price are skipped."""
    newest: dict[tuple[str, str], tuple[datetime, int]] = {}
    for item in items:
        price = micro_usd(item.get("SpotPrice"))
        if price is None:
            continue
        key = (item["InstanceType"], item["AvailabilityZone"])
        candidate = (item["Timestamp"], price)
        if key not in newest or candidate > newest[key]:
            newest[key] = candidate
    return {key: price for key, (_, price) in newest.items()}
