"""Schema of karpenter.sh/v1alpha1 NodeOverlay (NO-01)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field

from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.requirements import V1Requirement
from shared.api.schema.scalars import worded
from shared.api.schema.v1.node_pool import MOST_REQUIREMENTS, Resources

DECIMAL = r"[0-9]{1,9}(\.[0-9]{1,9})?"
CHANGE = rf"({DECIMAL}|\.[0-9]{{1,9}})"
PRICE_PATTERN = rf"^{DECIMAL}$"
ADJUSTMENT_PATTERN = rf"^(\+{CHANGE}%?|-{CHANGE}|-([0-9]{{1,2}}(\.[0-9]{{1,9}})?|100)%)$"
"""A reduction of more than 100 % would make a price negative."""
OF_THE_TYPE = ("cpu", "memory", "ephemeral-storage", "pods")
"""Resources that every instance type has; an overlay may only add others."""


def _check_price(raw: Json) -> Iterable[tuple[Path, str]]:
    if raw.get("price") is not None and raw.get("priceAdjustment") is not None:
        yield ("priceAdjustment",), "price and priceAdjustment exclude each other; remove one"


def _check_capacity(raw: Json) -> Iterable[tuple[Path, str]]:
    capacity = raw.get("capacity")
    for name in capacity if isinstance(capacity, dict) else ():
        if name in OF_THE_TYPE:
            yield (
                ("capacity", name),
                f"{name} is fixed by the instance type; only extended resources are allowed",
            )


def _check_min_values(raw: Json) -> Iterable[tuple[Path, str]]:
    listed = raw.get("requirements")
    for index, entry in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(entry, dict) and entry.get("minValues") is not None:
            yield ("requirements", index, "minValues"), "has no meaning in an overlay; remove it"


def _check_not_in(raw: Json) -> Iterable[tuple[Path, str]]:
    listed = raw.get("requirements")
    for index, entry in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(entry, dict) and entry.get("operator") == "NotIn" and not entry.get("values"):
            text = "NotIn needs a value; write one, or Exists for every value"
            yield ("requirements", index, "values"), text


class NodeOverlaySpec(ApiModel):
    """Which instance types the overlay changes, and how."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "price and priceAdjustment exclude each other",
            "!has(self.price) || !has(self.priceAdjustment)",
            _check_price,
        ),
        Rule(
            "capacity is for extended resources only",
            f"!has(self.capacity) || self.capacity.all(k, !(k in {list(OF_THE_TYPE)}))",
            _check_capacity,
        ),
        Rule(
            "minValues has no meaning in an overlay",
            "self.requirements.all(r, !has(r.minValues))",
            _check_min_values,
        ),
        Rule(
            "requirements with operator NotIn must have a value",
            "self.requirements.all(r, r.operator != 'NotIn' || (has(r.values) && size(r.values) > 0))",
            _check_not_in,
        ),
    )

    requirements: Annotated[list[V1Requirement], Field(max_length=MOST_REQUIREMENTS)]
    """Which instance types and offerings the overlay applies to; all of them when empty."""
    price_adjustment: (
        Annotated[str, *worded(ADJUSTMENT_PATTERN, '"+10%" or "-0.5"', None)] | None
    ) = None
    """Change of the price, in USD per hour ("+0.01", "-0.5") or in percent ("+10%", "-15.5%")."""
    price: Annotated[str, *worded(PRICE_PATTERN, '"0.05"', None)] | None = None
    """Price in USD per hour, which replaces that of the offering."""
    capacity: Resources = {}
    """Extended resources that these machines have in addition to those of their instance type."""
    weight: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Of several overlays for one instance type, the one with the highest weight applies."""


class NodeOverlayStatus(ApiModel):
    """Observed state of the overlay."""

    conditions: list[StatusCondition] = []
    """Ready; false when another overlay of the same weight conflicts with this one."""


class NodeOverlay(Resource):
    """A NodeOverlay changes prices and resources of instance types before machines are selected."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="karpenter.sh",
        version="v1alpha1",
        kind="NodeOverlay",
        plural="nodeoverlays",
        columns=(
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Age", ".metadata.creationTimestamp", "date"),
            Column("Weight", ".spec.weight", "integer", wide=True),
        ),
    )

    spec: NodeOverlaySpec
    """Which instance types the overlay changes, and how."""
    status: NodeOverlayStatus = NodeOverlayStatus()
    """Observed state of the overlay."""
