"""Charges as rows of the FinOps Open Cost and Usage Specification (FOCUS 1.1), one for each pod and what is idle. Pure.

Columns that begin with ``x_`` are our own, as the specification allows. Costs are list prices: discounts are not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from shared.domain import labels as keys
from shared.domain.nodes import provider_instance_id
from shared.simulation.ledgers.allocation import Charge

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
MICRO = 1_000_000


def rows(found: Iterable[Charge], *, region: str, now: float) -> Iterator[dict[str, str]]:
    """Charges of the hour that ``now`` is in, in seconds since the epoch, at the rate of ``now``."""
    hour = datetime.fromtimestamp(now, UTC).replace(minute=0, second=0, microsecond=0)
    month = hour.replace(day=1, hour=0)
    periods = {
        "ChargePeriodStart": _stamp(hour),
        "ChargePeriodEnd": _stamp(hour + timedelta(hours=1)),
        "BillingPeriodStart": _stamp(month),
        "BillingPeriodEnd": _stamp((month + timedelta(days=32)).replace(day=1)),
    }
    for charge in found:
        row = dict.fromkeys(COLUMNS, "") | _constants(region) | periods | _of(charge)
        yield {name: row[name] for name in COLUMNS}


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


def _of(charge: Charge) -> dict[str, str]:
    machine, pod = charge.machine, charge.pod
    cost = f"{charge.micro_usd_per_hour / MICRO:.6f}"
    spot = machine.capacity_type == keys.SPOT
    used_by = pod.key if pod else "idle"
    return {
        **dict.fromkeys(("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"), cost),
        **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), "1"),
        **dict.fromkeys(("ListUnitPrice", "ContractedUnitPrice"), cost),
        "ChargeDescription": f"{machine.instance_type} {machine.capacity_type}: {used_by}",
        "PricingCategory": "Dynamic" if spot else "Standard",
        "AvailabilityZone": machine.zone,
        "ResourceId": provider_instance_id(machine.provider_id) or machine.name,
        "ResourceName": machine.node_name or machine.name,
        "SkuId": f"{machine.instance_type}/{machine.capacity_type}",
        "Tags": json.dumps(pod.labels if pod else {}, sort_keys=True),
        "x_NodePool": machine.pool_key,
        "x_Namespace": charge.namespace,
        "x_Workload": charge.workload,
        "x_Pod": pod.key if pod else "",
    }


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
