"""Looks up everything that a node class selects in AWS, all parts at once, and says which parts fail (EC-15..17).

A part that finds nothing, or that we may not read, becomes a ``Problem`` and the others are looked up all the same: a
user mends a class once. What may go wrong beyond that (EC2 throttles, no network) is raised: nothing is known then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from services.launcher.node_class import (
    capacity_reservations,
    images,
    placement_groups,
)
from services.launcher.node_class import instance_profiles as profiles
from services.launcher.node_class.capacity_reservations import CapacityReservations
from services.launcher.node_class.images import Images, described
from services.launcher.node_class.instance_profiles import InstanceProfiles
from services.launcher.node_class.placement_groups import PlacementGroups
from services.launcher.node_class.shared_answers import SharedAnswers
from services.launcher.node_class.status import (
    Findings,
    Part,
    Problem,
    part,
    snapshots_of,
    tag_problems,
    volume_problems,
)
from services.launcher.resolved_class import BootImage
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.records import (
    CapacityReservation,
    LaunchTemplate,
    PlacementGroup,
    SecurityGroup,
    Subnet,
)
from shared.cloud.eks import EksCluster
from shared.cloud.user_data.bootstrap import Bootstrap
from shared.cloud.user_data.rendering import render
from shared.concurrency.clock import Clock
from shared.domain.instance_types.expressions import parted
from shared.domain.pools.nodepools import NodeClass, SelectorTerm
from shared.errors import InvalidObject, Unauthorized
from shared.log import get_logger
from shared.settings import LauncherSettings

log = get_logger(__name__)

MOST_REMEMBERED = 1000
TURN_SECONDS = 60.0
"""Between two looks at all node classes, unless a setting wants to know sooner."""
Value = TypeVar("Value")
UNKNOWN_CLUSTER = EksCluster("", "", "", "")


def turn_seconds(settings: LauncherSettings) -> float:
    """Between two looks at all node classes."""
    return min(TURN_SECONDS, settings.ami_refresh_interval, settings.subnet_refresh_interval)


@dataclass
class Discovery:
    cloud: Cloud
    images: Images
    profiles: InstanceProfiles
    placement_groups: PlacementGroups
    reservations: CapacityReservations
    clock: Clock
    settings: LauncherSettings
    answers: SharedAnswers
    _remembered: dict[tuple[str, str, int, str], tuple[float, Any]] = field(default_factory=dict)
    """(part, uid and generation of the class, version of Kubernetes) -> when, and what."""

    async def find(self, node_class: NodeClass, cluster: EksCluster) -> Findings:
        """Everything of this class, for nodes of this cluster. Raises TransientError."""
        problems = problems_of(node_class, cluster)
        problems += tag_problems(node_class, self.settings.aws_tags)
        subnets, groups, found, profile, snapshots, (reserved, group) = await asyncio.gather(
            part(
                self._network(node_class, "subnets", self._subnets),
                Part.SUBNETS,
                "SubnetsNotFound",
                problems,
            ),
            part(
                self._network(node_class, "groups", self._groups),
                Part.SECURITY_GROUPS,
                "SecurityGroupsNotFound",
                problems,
            ),
            part(
                self._refreshed_images(node_class, cluster), Part.AMIS, images.NOT_FOUND, problems
            ),
            part(
                self.profiles.resolve(node_class),
                Part.INSTANCE_PROFILE,
                profiles.NOT_FOUND,
                problems,
            ),
            self._snapshots(node_class),
            self._capacity(node_class, problems),
        )
        own, listed = found or (None, ())
        if own is None:
            problems += volume_problems(node_class, (item.image for item in listed), snapshots)
        return Findings(
            tuple(subnets or ()),
            tuple(groups or ()),
            listed,
            profile or "",
            own,
            tuple(sorted(problems, key=lambda problem: (problem.condition, problem.message))),
            reserved,
            group,
        )

    async def _network(
        self,
        node_class: NodeClass,
        what: str,
        look_up: Callable[[NodeClass], Awaitable[Value]],
    ) -> Value:
        key = (what, node_class.uid, node_class.generation, "")
        return await self._remember(
            key, self.settings.subnet_refresh_interval, lambda: look_up(node_class)
        )

    async def _refreshed_images(
        self, node_class: NodeClass, cluster: EksCluster
    ) -> tuple[LaunchTemplate | None, tuple[BootImage, ...]]:
        key = ("images", node_class.uid, node_class.generation, cluster.version)
        return await self._remember(
            key, self.settings.ami_refresh_interval, lambda: self._images(node_class, cluster)
        )

    async def _remember(
        self,
        key: tuple[str, str, int, str],
        seconds: float,
        look_up: Callable[[], Awaitable[Value]],
    ) -> Value:
        """What was found before, unless it were older than ``seconds`` at the next turn; else anew. What fails is not
        remembered."""
        now = self.clock.monotonic()
        known = self._remembered.get(key)
        if known is not None and now - known[0] < seconds - turn_seconds(self.settings):
            found: Value = known[1]
            return found
        found = await look_up()
        if len(self._remembered) >= MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = (now, found)
        return found

    async def _capacity(
        self, node_class: NodeClass, problems: list[Problem]
    ) -> tuple[tuple[CapacityReservation, ...], PlacementGroup | None]:
        found, group = await asyncio.gather(
            part(
                self.reservations.find(node_class),
                Part.CAPACITY_RESERVATIONS,
                capacity_reservations.NOT_FOUND,
                problems,
            ),
            part(
                self.placement_groups.find(node_class),
                Part.PLACEMENT_GROUP,
                placement_groups.NOT_FOUND,
                problems,
            ),
        )
        return found or (), group

    async def _images(
        self, node_class: NodeClass, cluster: EksCluster
    ) -> tuple[LaunchTemplate | None, tuple[BootImage, ...]]:
        """The user's own template with its image, or the images that the class selects."""
        if node_class.launch_template:
            return await images.find_user_template(self.cloud, node_class.launch_template)
        return None, await self.images.find(node_class, cluster.version)

    async def _snapshots(self, node_class: NodeClass) -> dict[str, int] | None:
        """Sizes in GiB of those that the class's volumes start from; None when we may not ask."""
        desired = snapshots_of(node_class)
        if not desired:
            return {}
        try:
            return await self.cloud.ec2.snapshot_sizes(desired)
        except Unauthorized as error:
            log.warning(
                "cannot check the snapshots", node_class=node_class.key, error=error.message
            )
            return None

    async def _subnets(self, node_class: NodeClass) -> list[Subnet]:
        terms = node_class.subnet_terms
        found = await self.answers.find("subnets", terms, lambda: self.cloud.ec2.subnets(terms))
        if not found:
            raise InvalidObject(
                f"no subnet has {_shown(node_class.subnet_terms)}; tag the subnets or mend the selector",
                field=_field(node_class, "subnetSelector"),
            )
        return found

    async def _groups(self, node_class: NodeClass) -> list[SecurityGroup]:
        if node_class.launch_template:
            return []  # T-07: the template names them
        terms = node_class.security_group_terms
        found = await self.answers.find(
            "security groups", terms, lambda: self.cloud.ec2.security_groups(terms)
        )
        if not found:
            raise InvalidObject(
                f"no security group has {_shown(node_class.security_group_terms)}; "
                "tag a group or mend the selector",
                field=_field(node_class, "securityGroupSelector"),
            )
        return found


def problems_of(node_class: NodeClass, cluster: EksCluster = UNKNOWN_CLUSTER) -> list[Problem]:
    """What is wrong with a class whatever AWS holds: settings that no machine could be started with."""
    found = []
    try:
        render(node_class.ami_family, _least_bootstrap(node_class, cluster))
    except InvalidObject as error:
        reason = str(error.context.get("reason") or "UserDataInvalid")
        found.append(Problem(Part.VALIDATION, reason, str(error)))
    return found


def _least_bootstrap(node_class: NodeClass, cluster: EksCluster) -> Bootstrap:
    """What every machine of the class boots with; each adds its labels and taints."""
    return Bootstrap(
        cluster_name="",
        endpoint=cluster.endpoint,
        ca_bundle=cluster.certificate_authority,
        # Amounts take the place of expressions, which no node ever sees.
        kubelet=parted(node_class.kubelet)[0],
        user_data=node_class.user_data,
        service_cidr=cluster.service_cidr,
        raid0_instance_store=node_class.instance_store_policy == "RAID0",
    )


def _field(node_class: NodeClass, name: str) -> str:
    return node_class.api.selector_field(name)


def _shown(terms: Iterable[SelectorTerm]) -> str:
    return "; nor ".join(described(term) for term in terms) or "no selector"
