"""CreateFleet: check the request, turn overrides into pools, plan, launch, report (LCH-50 to LCH-60).

Only ``Type: instant`` exists here. Unsupported options are refused with a clear error and never ignored: instance
requirements, weights, total price limits, maintenance strategies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from local.aws.capacity.stated import Cut, message
from local.aws.catalogue.prices import PriceBook
from local.aws.ec2.instances import Instance
from local.aws.ec2.launch_templates import is_known
from local.aws.ec2.launching import LaunchSpecification
from local.aws.ec2.placement_groups import placement_group
from local.aws.ec2.refusal import RequestRefused
from local.aws.ec2.tags import TagSpecifications
from local.aws.emulator import Emulator
from local.aws.fleet import markets
from local.aws.fleet import plan as fleet
from local.aws.moto.state import (
    LaunchTemplate,
    launch_subnet,
    launch_template,
    new_id,
    unknown_template,
)

OVERRIDE_LIMIT = 300
TARGET_LIMIT = 10_000
REFUSED_OPTIONS = ("MaxTotalPrice", "MaintenanceStrategies")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One override with its template: ``origin`` is what EC2 returns as LaunchTemplateAndOverrides."""

    specification: LaunchSpecification
    origin: Mapping[str, Any]


class FleetRequest:
    """One CreateFleet call against one region. Use ``run`` once, under the inventory's lock."""

    def __init__(self, emulator: Emulator, region: str, parameters: Mapping[str, Any]) -> None:
        self._emulator = emulator
        self._region = region
        self._parameters = parameters
        self._backend = emulator.ec2(region)
        self._errors: list[dict[str, Any]] = []
        self._groups: list[dict[str, Any]] = []
        self._launched = 0
        self._cut: Cut | None = None
        self._fleet_id = new_id("fleet-", 32)
        self._tags = TagSpecifications.parse(parameters.get("TagSpecifications") or [])

    def run(self) -> dict[str, Any]:
        """{FleetId, Instances, Errors}. Raises RequestRefused when EC2 would refuse the whole call."""
        targets = _targets(self._parameters)
        self._cut = self._emulator.capacity.next_cut()
        for capacity_type, number in targets.items():
            if number:
                self._serve(capacity_type, number)
        self._backend.create_tags([self._fleet_id], dict(self._tags.fleet))
        return {"FleetId": self._fleet_id, "Instances": self._groups, "Errors": self._errors}

    def _serve(self, capacity_type: str, number: int) -> None:
        options = _options(self._parameters, capacity_type)
        pools = self._pools(capacity_type)
        self._refuse_previews(pools, str(options.get("AllocationStrategy") or ""))
        capacity = {
            pool.key: self._emulator.supply.left(pool.payload.specification)
            for pool in pools
            if not pool.payload.specification.reservation_id
        }
        plan = _plan(pools, number, capacity_type, options, capacity)
        for pool in plan.exhausted:
            self._report_shortage(pool)
        if self._cut is not None:
            plan = self._cut_short(plan, self._cut)
        if plan.fulfilled < int(options.get("MinTargetCapacity") or 0):
            return
        for pool, granted in plan.grants:
            self._grant(pool, granted)

    def _refuse_previews(self, pools: list[fleet.Pool], strategy: str) -> None:
        """EC2 cannot choose by price what has none."""
        names = {pool.instance_type for pool in pools} & self._emulator.prices.unlisted
        if names and strategy not in fleet.PRIORITY_STRATEGIES:
            raise RequestRefused(
                "InvalidParameterValue",
                f"{min(names)} has no price yet: AllocationStrategy must be one of priorities",
            )

    def _cut_short(self, plan: fleet.Plan, cut: Cut) -> fleet.Plan:
        shorter = fleet.cut(plan, max(0, cut.give - self._launched))
        for pool in shorter.exhausted[len(plan.exhausted) :]:
            text = message(cut.code, pool.key)
            self._report(pool.payload, pool.capacity_type, cut.code, text)
        return shorter

    def _report_shortage(self, pool: fleet.Pool) -> None:
        candidate: Candidate = pool.payload
        code, text = self._emulator.supply.error(candidate.specification, self._vcpus(candidate))
        self._report(candidate, pool.capacity_type, code, text)

    def _vcpus(self, candidate: Candidate) -> int:
        return self._emulator.catalogue.types[candidate.specification.instance_type].vcpus

    def _grant(self, pool: fleet.Pool, planned: int) -> None:
        candidate: Candidate = pool.payload
        emulator = self._emulator
        bound = emulator.supply.bound(candidate.specification, self._vcpus(candidate))
        number = min(planned, bound.left)
        if number < planned:
            self._report_shortage(pool)
        if number == 0:
            return
        try:
            instances = emulator.launcher.launch(self._backend, candidate.specification, number)
        except RequestRefused as refused:
            self._report(candidate, pool.capacity_type, refused.code, refused.message)
            return
        emulator.supply.use(candidate.specification, number)
        emulator.trail.launched(instances, by_fleet=True)
        self._launched += number
        self._groups.append(_group(candidate, pool, instances))

    def _pools(self, capacity_type: str) -> list[fleet.Pool]:
        pools = []
        for candidate in self._candidates(capacity_type):
            specification = candidate.specification
            try:
                self._emulator.launcher.check(self._backend, specification)
                pools.append(self._pool(candidate))
            except RequestRefused as refused:
                self._report(candidate, capacity_type, refused.code, refused.message)
        return pools

    def _pool(self, candidate: Candidate) -> fleet.Pool:
        spec = candidate.specification
        override = candidate.origin["Overrides"]
        price = self._emulator.prices.price(spec.instance_type, spec.zone, spec.lifecycle)
        _check_max_price(override, spec, self._emulator.prices)
        priority = override.get("Priority")
        return fleet.Pool(
            instance_type=spec.instance_type,
            zone=spec.zone,
            capacity_type=spec.lifecycle,
            price=price,
            priority=None if priority is None else float(priority),
            payload=candidate,
            limit=self._emulator.supply.bound(spec, self._vcpus(candidate)).left,
        )

    def _candidates(self, capacity_type: str) -> list[Candidate]:
        candidates = []
        for config in _configs(self._parameters):
            template = self._template(config["LaunchTemplateSpecification"])
            default = markets.target_type(self._parameters)
            markets.check_template(template.data, default, self._emulator.reservations.find)
            for override in config.get("Overrides") or [{}]:
                candidate = self._candidate(template, override, capacity_type)
                if candidate is not None:
                    candidates.append(candidate)
        return candidates

    def _template(self, reference: Mapping[str, Any]) -> LaunchTemplate:
        found = launch_template(self._backend, reference)
        if not is_known(self._emulator, self._backend.launch_templates[found.template_id]):
            raise unknown_template(reference.get("LaunchTemplateName"), found.template_id)
        return found

    def _candidate(
        self, template: LaunchTemplate, override: Mapping[str, Any], capacity_type: str
    ) -> Candidate | None:
        origin = {
            "LaunchTemplateSpecification": {
                "LaunchTemplateId": template.template_id,
                "Version": str(template.version),
            },
            "Overrides": dict(override),
        }
        try:
            subnet = self._subnet(template.data, override)
            specification = specification_from_template(
                self._emulator, template, self._region, subnet
            )
        except RequestRefused as refused:
            self._errors.append(_error(origin, capacity_type, refused.code, refused.message))
            return None
        tags = self._tags.merged_over(template.data.get("TagSpecifications") or [])
        system_tags = {"aws:ec2:fleet-id": self._fleet_id, **template.tags}
        specification = replace(
            specification,
            image_id=override.get("ImageId") or specification.image_id,
            instance_type=override.get("InstanceType") or specification.instance_type,
            lifecycle=capacity_type,
            instance_tags={**tags.instance, **system_tags},
            volume_tags=tags.volume,
            client_token=str(self._parameters.get("ClientToken") or ""),
        )
        return Candidate(specification, origin)

    def _subnet(self, data: Mapping[str, Any], override: Mapping[str, Any]) -> Any:
        interfaces = data.get("NetworkInterfaces") or [{}]
        subnet_id = override.get("SubnetId") or interfaces[0].get("SubnetId")
        zone = override.get("AvailabilityZone")
        subnet = launch_subnet(self._backend, subnet_id, zone or f"{self._region}a")
        if zone and subnet.availability_zone != zone:
            raise RequestRefused(
                "InvalidParameterValue",
                f"Subnet {subnet_id} is in {subnet.availability_zone}, not in {zone}.",
            )
        return subnet

    def _report(self, candidate: Candidate, capacity_type: str, code: str, message: str) -> None:
        self._errors.append(_error(candidate.origin, capacity_type, code, message))


def create_fleet(emulator: Emulator, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of CreateFleet; the first answer when the client token is known. Raises RequestRefused."""
    token = str(parameters.get("ClientToken") or "")
    key = ("CreateFleet", region, token)
    earlier = emulator.tokens.earlier_answer(key, parameters) if token else None
    if earlier is not None:
        return dict(earlier)
    answer = FleetRequest(emulator, region, parameters).run()
    if token:
        ids = tuple(i for group in answer["Instances"] for i in group["InstanceIds"])
        emulator.tokens.remember(key, parameters, answer, ids)
    return answer


def specification_from_template(
    emulator: Emulator, template: LaunchTemplate, region: str, subnet: Any
) -> LaunchSpecification:
    """The specification of the launch template alone, on-demand, in ``subnet``. Raises RequestRefused."""
    data = template.data
    interfaces = data.get("NetworkInterfaces") or [{}]
    groups = data.get("SecurityGroupIds") or interfaces[0].get("Groups") or []
    user_data = data.get("UserData")
    return LaunchSpecification(
        region=region,
        image_id=str(data.get("ImageId") or ""),
        instance_type=str(data.get("InstanceType") or ""),
        subnet=subnet,
        zone=str(subnet.availability_zone),
        lifecycle="on-demand",
        security_group_ids=tuple(groups),
        instance_profile=data.get("IamInstanceProfile") or {},
        user_data=None if user_data is None else str(user_data),
        block_devices=tuple(data.get("BlockDeviceMappings") or ()),
        metadata_options=data.get("MetadataOptions") or {},
        key_name=data.get("KeyName"),
        ebs_optimized=bool(data.get("EbsOptimized")),
        reservation_id=_reservation_id(data),
        placement_group=placement_group(emulator, region, data.get("Placement") or {}),
        tenancy=str((data.get("Placement") or {}).get("Tenancy") or "default"),
        monitoring=bool((data.get("Monitoring") or {}).get("Enabled")),
    )


def _reservation_id(data: Mapping[str, Any]) -> str:
    specification = data.get("CapacityReservationSpecification") or {}
    target = specification.get("CapacityReservationTarget") or {}
    return str(target.get("CapacityReservationId") or "")


def _configs(parameters: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    configs: list[Mapping[str, Any]] = parameters.get("LaunchTemplateConfigs") or []
    if not configs:
        raise RequestRefused("MissingParameter", "LaunchTemplateConfigs needs at least one entry")
    overrides = [override for config in configs for override in config.get("Overrides") or []]
    if len(overrides) > OVERRIDE_LIMIT:
        raise RequestRefused(
            "InvalidParameterValue", f"At most {OVERRIDE_LIMIT} overrides, not {len(overrides)}"
        )
    for override in overrides:
        if "InstanceRequirements" in override:
            raise _unsupported("InstanceRequirements in Overrides", "name InstanceType instead")
        if float(override.get("WeightedCapacity") or 1) != 1:
            raise _unsupported("WeightedCapacity other than 1", "count in instances")
    return configs


def _targets(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Requested instances per capacity type."""
    if parameters.get("Type") != "instant":
        raise _unsupported(f"Type {parameters.get('Type') or 'maintain'}", "use instant")
    target = parameters.get("TargetCapacitySpecification") or {}
    total = int(target.get("TotalTargetCapacity") or 0)
    if not 1 <= total <= TARGET_LIMIT:
        raise RequestRefused(
            "InvalidParameterValue", f"TotalTargetCapacity must be 1 to {TARGET_LIMIT}, not {total}"
        )
    targets = {
        "on-demand": int(target.get("OnDemandTargetCapacity") or 0),
        "spot": int(target.get("SpotTargetCapacity") or 0),
    }
    # Reserved capacity of any kind is planned and launched like on-demand capacity.
    default = "spot" if markets.target_type(parameters) == "spot" else "on-demand"
    targets[default] += max(0, total - sum(targets.values()))
    return targets


def _options(parameters: Mapping[str, Any], capacity_type: str) -> Mapping[str, Any]:
    name = "SpotOptions" if capacity_type == "spot" else "OnDemandOptions"
    options: Mapping[str, Any] = parameters.get(name) or {}
    for option in REFUSED_OPTIONS:
        if options.get(option):
            raise _unsupported(f"{name}.{option}", "leave it out")
    one_pool = options.get("SingleAvailabilityZone") or options.get("SingleInstanceType")
    if options.get("MinTargetCapacity") and not one_pool:
        raise RequestRefused(
            "InvalidParameterCombination",
            f"{name}.MinTargetCapacity needs SingleAvailabilityZone or SingleInstanceType",
        )
    return options


def _plan(
    pools: list[fleet.Pool],
    number: int,
    capacity_type: str,
    options: Mapping[str, Any],
    capacity: Mapping[fleet.PoolKey, int],
) -> fleet.Plan:
    strategy = str(options.get("AllocationStrategy") or fleet.DEFAULT_STRATEGY[capacity_type])
    if strategy not in fleet.STRATEGIES[capacity_type]:
        known = ", ".join(sorted(fleet.STRATEGIES[capacity_type]))
        raise RequestRefused(
            "InvalidParameterValue", f"AllocationStrategy {strategy} for {capacity_type}: {known}"
        )
    if options.get("SingleAvailabilityZone"):
        return fleet.plan_within_one(pools, number, strategy, capacity, lambda p: p.zone)
    if options.get("SingleInstanceType"):
        return fleet.plan_within_one(pools, number, strategy, capacity, lambda p: p.instance_type)
    return fleet.plan(pools, number, strategy, capacity)


def _check_max_price(
    override: Mapping[str, Any], spec: LaunchSpecification, prices: PriceBook
) -> None:
    limit = override.get("MaxPrice")
    if spec.lifecycle != "spot" or not limit:
        return
    price = prices.spot(spec.instance_type, spec.zone)
    if float(limit) < price:
        raise RequestRefused(
            "SpotMaxPriceTooLow",
            f"Your Spot request price of {limit} is lower than the minimum required Spot "
            f"request fulfillment price of {price}.",
        )


def _group(candidate: Candidate, pool: fleet.Pool, instances: list[Instance]) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": candidate.origin,
        "Lifecycle": pool.capacity_type,
        "InstanceType": pool.instance_type,
        "InstanceIds": [instance.instance_id for instance in instances],
    }


def _error(
    origin: Mapping[str, Any], capacity_type: str, code: str, message: str
) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": origin,
        "Lifecycle": capacity_type,
        "ErrorCode": code,
        "ErrorMessage": message,
    }


def _unsupported(what: str, fix: str) -> RequestRefused:
    return RequestRefused("UnsupportedOperation", f"The emulator does not offer {what}: {fix}.")
