"""May we launch machines of this class? Tried out with dry runs before the first one waits for it (EC-18).

A class that passed is not asked again for half an hour, unless it is edited. A denial is asked again at the next
refresh, so that a policy that was mended helps at once.

What may go wrong: EC2 says something else than yes or no, for instance because a new instance profile is not known
everywhere yet. Only what the class itself is wrong about counts then; the rest is logged, and seen at the launch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from services.launcher.launch_template.content import (
    instance_tags,
    template_data,
    template_name_v1,
    template_tags,
)
from services.launcher.launch_template.variants import Variant
from services.launcher.node_class.status import Part, Problem
from services.launcher.ports import Ports
from services.launcher.resolved_class import Resolved
from shared.cloud.client.calls import Json
from shared.cloud.ec2.records import tag_specification
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.pools.generations import V1
from shared.errors import DovetailError, TransientError, Unauthorized
from shared.log import get_logger

log = get_logger(__name__)

AUTHORIZATION_FRESH_SECONDS = 1800.0
"""Validation (LCH-90)."""
MOST_CLASSES_KNOWN = 1000
CREATE_FLEET = "CreateFleetAuthCheckFailed"
CREATE_LAUNCH_TEMPLATE = "CreateLaunchTemplateAuthCheckFailed"
RUN_INSTANCES = "RunInstancesAuthCheckFailed"
CLASS_FAULTS = frozenset(
    {"InvalidBlockDeviceMapping", "InvalidSnapshot.NotFound", "InvalidKeyPair.NotFound"}
)
"""Codes that name a mistake of the class, whoever launches it."""
TYPES = {"x86_64": "m5.large", "arm64": "m6g.large"}
"""Architecture of an image -> a type that starts it, sold everywhere."""
ANYBODY = "dry-run"
"""Stands for the pool and the machine that a launch would be for."""
_RUN_KEYS = (
    "ImageId",
    "BlockDeviceMappings",
    "IamInstanceProfile",
    "MetadataOptions",
    "Monitoring",
)


def requests(resolved: Resolved, cluster: str) -> tuple[Json, Json, Json]:
    """What CreateFleet, CreateLaunchTemplate and RunInstances would be asked for a machine of this class."""
    node_class, image = resolved.node_class, resolved.images.items[0].image
    machine = Machine(uid=ANYBODY, name=ANYBODY, pool=ANYBODY, generation_api=V1)
    data = template_data(machine, resolved, Variant(image.id), "", cluster=cluster)
    tags = template_tags(machine, node_class, cluster)
    name, subnet = template_name_v1(data, tags), resolved.subnets[0].id
    kind = TYPES[image.architecture]
    of_instances = instance_tags(machine, node_class, cluster)

    def tagged(*resources: str) -> list[Json]:
        return [tag_specification(resource, of_instances) for resource in resources]

    fleet: Json = {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"},
                "Overrides": [{"InstanceType": kind, "SubnetId": subnet}],
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": keys.ON_DEMAND,
        },
        "TagSpecifications": tagged("instance", "volume", "fleet"),
    }
    template: Json = {
        "LaunchTemplateName": name,
        "LaunchTemplateData": data,
        "TagSpecifications": [tag_specification("launch-template", tags)],
    }
    instances: Json = {
        "InstanceType": kind,
        "MinCount": 1,
        "MaxCount": 1,
        "SubnetId": subnet,
        "SecurityGroupIds": sorted(group.id for group in resolved.security_groups),
        "TagSpecifications": tagged("instance", "volume", "network-interface"),
        **{key: data[key] for key in _RUN_KEYS if key in data},
    }
    return fleet, template, instances


@dataclass
class Authorization:
    """Asks EC2, and remembers which classes passed."""

    ports: Ports
    _passed: dict[str, tuple[float, object]] = field(default_factory=dict)
    """Class -> since when, and how it was written then."""

    async def problems(self, resolved: Resolved) -> list[Problem]:
        """What EC2 denies to machines of this class; v1 only. Raises TransientError."""
        node_class = resolved.node_class
        if self.ports.settings.disable_dry_run or not node_class.api.class_is_authorized:
            return []
        written = (node_class.uid, node_class.generation, resolved.profile)
        since, passed = self._passed.get(node_class.key, (0.0, None))
        if passed == written and self.ports.clock.monotonic() - since < AUTHORIZATION_FRESH_SECONDS:
            return []
        problems, is_certain = await self._ask(resolved)
        if is_certain and not problems:
            if len(self._passed) >= MOST_CLASSES_KNOWN:
                self._passed.clear()
            self._passed[node_class.key] = (self.ports.clock.monotonic(), written)
        return problems

    async def _ask(self, resolved: Resolved) -> tuple[list[Problem], bool]:
        """What is denied, and whether every call was answered by yes or no."""
        fleet, template, instances = requests(resolved, self.ports.settings.cluster_name)
        runs = self.ports.cloud.dry_runs
        calls: tuple[tuple[str, Callable[[Json], Awaitable[None]], Json], ...] = (
            (CREATE_FLEET, runs.create_fleet, fleet),
            (CREATE_LAUNCH_TEMPLATE, runs.create_launch_template, template),
            (RUN_INSTANCES, runs.run_instances, instances),
        )
        problems: list[Problem] = []
        is_certain = True
        for reason, call, request in calls:
            try:
                await call(request)
            except Unauthorized as error:
                problems.append(Problem(Part.VALIDATION, reason, error.message))
            except TransientError:
                raise
            except DovetailError as error:
                code = str(error.context.get("code"))
                if code in CLASS_FAULTS:
                    problems.append(Problem(Part.VALIDATION, code, error.message))
                log.warning(
                    "a dry run was not answered by yes or no",
                    node_class=resolved.node_class.key,
                    error=error.message,
                )
                is_certain = False
        return problems, is_certain
