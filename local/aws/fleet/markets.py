"""The markets that a fleet may request, and the launch templates that each market permits.

A market is EC2's term for the purchase model of an instance: spot, on-demand, a capacity block, or an interruptible
capacity reservation. The template's ``MarketType`` and the fleet's ``DefaultTargetCapacityType`` must agree, and only
spot and on-demand have an allocation strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from botocore.loaders import Loader

from local.aws.capacity.reservations import Reservation
from local.aws.ec2.refusal import RequestRefused
from shared.cloud.client.models import CompactFileLoader

BLOCK = "capacity-block"
RESERVED = "reserved-capacity"
INTERRUPTIBLE = "interruptible-capacity-reservation"
_OPTIONS = {
    "spot": "SpotOptions",
    "on-demand": "OnDemandOptions",
    RESERVED: "ReservedCapacityOptions",
}
_MARKETS = {BLOCK: BLOCK, RESERVED: INTERRUPTIBLE}


@cache
def known_types() -> tuple[str, ...]:
    """Values of DefaultTargetCapacityType, from the client library's model of EC2."""
    model = Loader(file_loader=CompactFileLoader()).load_service_model("ec2", "service-2")
    return tuple(model["shapes"]["DefaultTargetCapacityType"]["enum"])


def target_type(parameters: Mapping[str, Any]) -> str:
    """The fleet's DefaultTargetCapacityType. Raises RequestRefused for an unknown type or options of another."""
    target = parameters.get("TargetCapacitySpecification") or {}
    default = str(target.get("DefaultTargetCapacityType") or "on-demand")
    if default not in known_types():
        known = ", ".join(known_types())
        raise RequestRefused(
            "InvalidParameterValue", f"DefaultTargetCapacityType {default}: use one of {known}"
        )
    wrong = [
        name for kind, name in _OPTIONS.items() if _is_foreign(default, kind, parameters, name)
    ]
    if wrong:
        raise RequestRefused("InvalidParameterCombination", f"{wrong[0]} does not match {default}")
    _check_reservation_types(default, parameters.get("ReservedCapacityOptions") or {})
    return default


def _is_foreign(default: str, kind: str, parameters: Mapping[str, Any], name: str) -> bool:
    """Whether an option belongs to another market. Spot and on-demand options may be combined: a fleet may request
    both.
    """
    usual = {"spot", "on-demand"}
    return bool(parameters.get(name)) and kind != default and not {kind, default} <= usual


def _check_reservation_types(default: str, options: Mapping[str, Any]) -> None:
    if default == RESERVED and options.get("ReservationTypes") != [INTERRUPTIBLE]:
        raise RequestRefused(
            "InvalidParameterValue",
            f"ReservedCapacityOptions.ReservationTypes: the emulator offers only {INTERRUPTIBLE}",
        )


def check_template(
    data: Mapping[str, Any], default: str, find: Callable[[str], Reservation]
) -> None:
    """Raises RequestRefused for a template of another market, and for a reservation of another."""
    market = str((data.get("InstanceMarketOptions") or {}).get("MarketType") or "")
    template_market = _MARKETS.get(default, "")
    if market != template_market and not (market == default == "spot"):
        raise RequestRefused(
            "InvalidParameterCombination",
            f"MarketType {market or 'on-demand'} of the launch template does not match {default}",
        )
    specification = data.get("CapacityReservationSpecification") or {}
    target = (specification.get("CapacityReservationTarget") or {}).get("CapacityReservationId")
    if template_market and not target:
        raise RequestRefused("MissingParameter", f"{default} needs a CapacityReservationTarget")
    if target and find(str(target)).market != template_market:
        raise RequestRefused("InvalidParameterCombination", f"{target} cannot be used as {default}")
