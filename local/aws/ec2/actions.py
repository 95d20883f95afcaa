"""EC2 actions that the emulator answers itself. Each takes (emulator, region, parsed parameters).

They return a result for moto's serialiser, or finished XML for the frequent actions, and raise RequestRefused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from local.aws.ec2 import statuses, xml_answers
from local.aws.ec2.filters import filtered, instance_values, matches_any, offset_of, page, page_size
from local.aws.ec2.instances import STATE_CODES, TERMINATION_STATES, Instance
from local.aws.ec2.refusal import RequestRefused
from local.aws.emulator import Emulator

Parameters = Mapping[str, Any]

INSTANCE_PAGE = 1000
SPOT_PRICE_PAGE = 1000
SPOT_PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


def describe_instances(emulator: Emulator, region: str, parameters: Parameters) -> str:
    """The instances, paged by launch order, so that launches and deletions between pages shift no row."""
    ids = parameters.get("InstanceIds") or []
    if ids and parameters.get("MaxResults"):
        raise RequestRefused(
            "InvalidParameterCombination",
            "The parameter instancesSet cannot be used with the parameter maxResults",
        )
    emulator.reservations.release(emulator.clock.now())
    rows = emulator.inventory.described(_by_ids(emulator, region, ids))
    found = filtered(rows, parameters.get("Filters") or [], instance_values)
    after = offset_of(parameters.get("NextToken"))
    rest = [instance for instance in found if instance.sequence > after]
    size = page_size(parameters.get("MaxResults"), INSTANCE_PAGE)
    shown = rest[:size]
    token = str(shown[-1].sequence) if len(rest) > size else None
    return xml_answers.describe_instances(shown, token)


def describe_instance_status(
    emulator: Emulator, region: str, parameters: Parameters
) -> dict[str, Any]:
    """Running instances, or all instances with IncludeAllInstances."""
    named = _by_ids(emulator, region, parameters.get("InstanceIds") or [])
    rows = [
        (instance, emulator.statuses.of(instance.instance_id))
        for instance in emulator.inventory.described(named)
        if instance.state == "running" or parameters.get("IncludeAllInstances")
    ]
    rows = filtered(rows, parameters.get("Filters") or [], statuses.status_values)
    shown, token = page(rows, parameters, INSTANCE_PAGE)
    return {"InstanceStatuses": [statuses.described(row) for row in shown], "NextToken": token}


def terminate_instances(emulator: Emulator, region: str, parameters: Parameters) -> dict[str, Any]:
    """Terminate the instances. Idempotent; one unknown id refuses the whole call, and nothing is terminated."""
    changes = _change(emulator, region, parameters, emulator.inventory.terminate)
    return {"TerminatingInstances": changes}


def stop_instances(emulator: Emulator, region: str, parameters: Parameters) -> dict[str, Any]:
    """Stop the instances. One-time spot instances cannot be stopped, as on EC2."""
    # All are checked before one is stopped: a refused call changes nothing.
    for instance in _named(emulator, region, parameters):
        if instance.lifecycle == "spot":
            raise RequestRefused(
                "UnsupportedOperation",
                f"You can't stop the Spot Instance '{instance.instance_id}' because it is "
                "associated with a one-time Spot Instance request.",
            )
        if instance.state in TERMINATION_STATES:
            raise _incorrect_state(instance, "stopped")
    return {"StoppingInstances": _change(emulator, region, parameters, emulator.inventory.stop)}


def start_instances(emulator: Emulator, region: str, parameters: Parameters) -> dict[str, Any]:
    """Start stopped instances; running ones are not changed."""
    for instance in _named(emulator, region, parameters):
        if instance.state in TERMINATION_STATES | {"stopping"}:
            raise _incorrect_state(instance, "started")
    return {"StartingInstances": _change(emulator, region, parameters, emulator.inventory.start)}


def describe_spot_price_history(emulator: Emulator, region: str, parameters: Parameters) -> str:
    """The current price of each offered spot pool; there is no older history."""
    accepts = _spot_filter(parameters)
    rows = [
        (instance_type, zone)
        for instance_type, zone in emulator.catalogue.offered(region)
        if accepts(instance_type, zone) and emulator.catalogue.types[instance_type].supports_spot
    ]
    shown, token = page(rows, parameters, SPOT_PRICE_PAGE)
    sold = [one for one in shown if one[0] not in emulator.prices.unlisted]
    prices = [(name, zone, emulator.prices.spot(name, zone)) for name, zone in sold]
    return xml_answers.describe_spot_price_history(prices, emulator.clock.now(), token)


def describe_capacity_reservations(
    emulator: Emulator, region: str, parameters: Parameters
) -> dict[str, Any]:
    """The reservations that the control endpoint created."""
    rows = emulator.reservations.described(parameters, emulator.clock.now())
    shown, token = page(rows, parameters, INSTANCE_PAGE)
    return {"CapacityReservations": list(shown), "NextToken": token}


def prepare_tag_change(emulator: Emulator, region: str, resource_ids: list[str]) -> None:
    """Raises RequestRefused when a tag call names an instance that does not exist."""
    ids = [resource_id for resource_id in resource_ids if resource_id.startswith("i-")]
    if missing := emulator.inventory.missing(ids, region):
        raise _unknown_instances(missing)
    for instance in map(emulator.inventory.get, ids):
        if instance is not None:
            emulator.inventory.remember(instance)


def _by_ids(emulator: Emulator, region: str, ids: list[str]) -> list[Instance]:
    visible = emulator.inventory.visible(region)
    if not ids:
        return visible
    by_id = {instance.instance_id: instance for instance in visible}
    if missing := [instance_id for instance_id in ids if instance_id not in by_id]:
        raise _unknown_instances(missing)
    return [by_id[instance_id] for instance_id in dict.fromkeys(ids)]


def _named(emulator: Emulator, region: str, parameters: Parameters) -> list[Instance]:
    ids = parameters.get("InstanceIds") or []
    if not ids:
        raise RequestRefused(
            "MissingParameter", "The request must contain the parameter InstanceId"
        )
    return _by_ids(emulator, region, ids)


def _change(
    emulator: Emulator, region: str, parameters: Parameters, change: Callable[[Instance], str]
) -> list[dict[str, Any]]:
    rows = []
    for instance in _named(emulator, region, parameters):
        previous = change(instance)
        rows.append(
            {
                "InstanceId": instance.instance_id,
                "PreviousState": _state(previous),
                "CurrentState": _state(instance.state),
            }
        )
    return rows


def _state(name: str) -> dict[str, Any]:
    return {"Code": STATE_CODES[name], "Name": name}


def _unknown_instances(ids: list[str]) -> RequestRefused:
    subject = "ID" if len(ids) == 1 else "IDs"
    verb = "does" if len(ids) == 1 else "do"
    return RequestRefused(
        "InvalidInstanceID.NotFound",
        f"The instance {subject} '{', '.join(ids)}' {verb} not exist",
    )


def _incorrect_state(instance: Instance, change: str) -> RequestRefused:
    return RequestRefused(
        "IncorrectInstanceState",
        f"The instance '{instance.instance_id}' is not in a state from which it can be {change}.",
    )


def _spot_filter(parameters: Parameters) -> Callable[[str, str], bool]:
    filters = {row["Name"]: row.get("Values") or [] for row in parameters.get("Filters") or []}
    types = parameters.get("InstanceTypes") or []
    zone = parameters.get("AvailabilityZone")
    products = parameters.get("ProductDescriptions") or filters.get("product-description") or []
    if products and not matches_any(SPOT_PRODUCTS, products):
        return lambda instance_type, zone_name: False

    def accepts(instance_type: str, zone_name: str) -> bool:
        return (
            (not types or instance_type in types)
            and (not zone or zone_name == zone)
            and matches_any([instance_type], filters.get("instance-type", ["*"]))
            and matches_any([zone_name], filters.get("availability-zone", ["*"]))
        )

    return accepts
