"""The pricing API's GetProducts, which moto lacks: on-demand prices of compute instances, in pages of 100."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from local.aws.catalogue.prices import PriceBook
from local.aws.catalogue.types import Catalogue
from local.aws.ec2.filters import page
from local.aws.ec2.refusal import RequestRefused

TARGET_PREFIX = "AWSPriceListService."
PRODUCT_PAGE = 100

SERVED_ATTRIBUTES = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
    "licenseModel": "No License required",
}
"""The only product of this emulator: plain Linux, shared tenancy, on demand."""


def get_products(
    catalogue: Catalogue, prices: PriceBook, region: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON answer. Other operating systems or tenancies have no products. Raises RequestRefused."""
    if parameters.get("ServiceCode") != "AmazonEC2":
        raise RequestRefused(
            "NotFoundException",
            f"ServiceCode {parameters.get('ServiceCode')}: only AmazonEC2 is sold",
        )
    filters = {row["Field"]: row["Value"] for row in parameters.get("Filters") or []}
    region = filters.get("regionCode", region)
    types = sorted({name for name, _ in catalogue.offered(region)})
    types = [name for name in types if filters.get("instanceType", name) == name]
    types = [name for name in types if name not in prices.unlisted]
    if not _served(filters):
        types = []
    shown, token = page(types, parameters, PRODUCT_PAGE)
    answer: dict[str, Any] = {
        "FormatVersion": "aws_v1",
        "PriceList": [json.dumps(_product(name, region, catalogue, prices)) for name in shown],
    }
    if token:
        answer["NextToken"] = token
    return answer


def _served(filters: Mapping[str, str]) -> bool:
    known = {name.lower(): value for name, value in SERVED_ATTRIBUTES.items()}
    return all(known.get(name.lower(), value) == value for name, value in filters.items())


def _product(name: str, region: str, catalogue: Catalogue, prices: PriceBook) -> dict[str, Any]:
    facts = catalogue.types[name]
    sku = name.upper().replace(".", "")
    dimension = {
        "unit": "Hrs",
        "description": f"${prices.on_demand(name)} per On Demand Linux {name} Instance Hour",
        "pricePerUnit": {"USD": f"{prices.on_demand(name):.10f}"},
    }
    term = {"sku": sku, "priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": dimension}}
    return {
        "product": {
            "productFamily": "Compute Instance",
            "sku": sku,
            "attributes": {
                **SERVED_ATTRIBUTES,
                "instanceType": name,
                "regionCode": region,
                "vcpu": str(facts.vcpus),
                "memory": f"{facts.memory_mib / 1024:g} GiB",
            },
        },
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
    }
