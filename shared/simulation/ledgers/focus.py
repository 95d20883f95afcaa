"""Charges as rows of the FinOps Open Cost and Usage Specification (FOCUS 1.1): of an hour, one for each pod and what is
idle; of a recorded period, one for each workload on each instance. Pure.

Columns that begin with ``x_`` are our own, as the specification allows. Costs are list prices: discounts are not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from shared.domain import labels as keys
from shared.domain.nodes import provider_instance_id
from shared.simulation.ledgers.allocation import MICRO, Charge
from shared.simulation.ledgers.instances import HOUR

COLUMNS = (
    "BilledCost", "EffectiveCost", "ListCost", "ContractedCost", "BillingCurrency", "ChargeCategory",
    "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodStart", "ChargePeriodEnd",
    "BillingPeriodStart", "BillingPeriodEnd", "ConsumedQuantity", "ConsumedUnit", "PricingQuantity",
    "PricingUnit", "PricingCategory", "ListUnitPrice", "ContractedUnitPrice", "ProviderName",
    "PublisherName", "InvoiceIssuerName", "ServiceCategory", "ServiceName", "RegionId",
    "AvailabilityZone", "ResourceId", "ResourceName", "ResourceType", "SkuId", "Tags",
    "x_NodePool", "x_Namespace", "x_Workload", "x_Pod",
)  # fmt: skip
AWS = "Amazon Web Services"


class Owner(NamedTuple):
    """Who pays a part of an instance over a period. Empty names: nobody."""

    instance: str
    """EC2's id, or the machine's name while it has none."""
    node: str
    instance_type: str
    capacity_type: str
    zone: str
    pool: str
    namespace: str
    workload: str


def owner_of(charge: Charge) -> Owner:
    """The owner of a charge: pods of one workload on one instance are one."""
    machine = charge.machine
    return Owner(
        provider_instance_id(machine.provider_id) or machine.name,
        machine.node_name or machine.name,
        machine.instance_type,
        machine.capacity_type,
        machine.zone,
        machine.pool_key,
        charge.namespace,
        charge.workload,
    )


def rows(found: Iterable[Charge], *, region: str, now: float) -> Iterator[dict[str, str]]:
    """Charges of the hour that ``now`` is in, in seconds since the epoch, at the rate of ``now``."""
    hour = datetime.fromtimestamp(now, UTC).replace(minute=0, second=0, microsecond=0)
    begin = hour.timestamp()
    periods = _periods(begin, begin + HOUR)
    for charge in found:
        pod = charge.pod
        own = {
            "Tags": json.dumps(pod.labels if pod else {}, sort_keys=True),
            "x_Pod": pod.key if pod else "",
        }
        cost = charge.micro_usd_per_hour / MICRO
        used_by = pod.key if pod else "idle"
        yield _row(_constants(region) | periods | _of(owner_of(charge), cost, 1.0, used_by) | own)


def spent_rows(
    found: Iterable[tuple[Owner, float, float, float]], *, region: str
) -> Iterator[dict[str, str]]:
    """``found``: owner, begin and end in seconds since the epoch, micro-USD in this time."""
    for owner, begin, end, micro in found:
        hours, used_by = (end - begin) / HOUR, owner.workload
        periods = _periods(begin, end)
        yield _row(_constants(region) | periods | _of(owner, micro / MICRO, hours, used_by))


def _row(values: Mapping[str, str]) -> dict[str, str]:
    return {name: values.get(name, "") for name in COLUMNS}


def _periods(begin: float, end: float) -> dict[str, str]:
    first = datetime.fromtimestamp(begin, UTC)
    month = first.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return {
        "ChargePeriodStart": _stamp(first),
        "ChargePeriodEnd": _stamp(datetime.fromtimestamp(end, UTC)),
        "BillingPeriodStart": _stamp(month),
        "BillingPeriodEnd": _stamp((month + timedelta(days=32)).replace(day=1)),
    }


def _constants(region: str) -> dict[str, str]:
    return {
        "BillingCurrency": "USD",
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "ConsumedUnit": "Hours",
        "PricingUnit": "Hours",
        "ProviderName": AWS,
        "PublisherName": AWS,
        "InvoiceIssuerName": AWS,
        "ServiceCategory": "Compute",
        "ServiceName": "Amazon Elastic Compute Cloud",
        "ResourceType": "Instance",
        "RegionId": region,
    }


def _of(owner: Owner, cost: float, hours: float, used_by: str) -> dict[str, str]:
    """Quantities are the hours of the period, so a unit price is that of this part of the instance."""
    costs = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
    return {
        **dict.fromkeys(costs, f"{cost:.6f}"),
        **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), f"{hours:g}"),
        **dict.fromkeys(("ListUnitPrice", "ContractedUnitPrice"), f"{cost / hours:.6f}"),
        "ChargeDescription": f"{owner.instance_type} {owner.capacity_type}: {used_by}",
        "PricingCategory": "Dynamic" if owner.capacity_type == keys.SPOT else "Standard",
        "AvailabilityZone": owner.zone,
        "ResourceId": owner.instance,
        "ResourceName": owner.node,
        "SkuId": f"{owner.instance_type}/{owner.capacity_type}",
        "x_NodePool": owner.pool,
        "x_Namespace": owner.namespace,
        "x_Workload": owner.workload,
    }


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
