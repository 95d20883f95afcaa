"""karpenter.sh/v1alpha1 NodeOverlay (NO-01)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.types import StringConstraints

from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.requirements import V1Requirement
from shared.api.schema.v1.node_pool import MOST_REQUIREMENTS, Resources

DECIMAL = r"[0-9]{1,9}(\.[0-9]{1,9})?"
PRICE_PATTERN = rf"^{DECIMAL}$"
ADJUSTMENT_PATTERN = rf"^(\+{DECIMAL}%?|-{DECIMAL}|-([0-9]{{1,2}}(\.[0-9]{{1,9}})?|100)%)$"
"""Nothing gets cheaper than free: at most 100 % are taken off."""
OF_THE_TYPE = ("cpu", "memory", "ephemeral-storage", "pods")
"""Resources that every instance type has: an overlay adds others only."""


def _check_price(raw: Json) -> Iterable[tuple[Path, str]]:
    if raw.get("price") is not None and raw.get("priceAdjustment") is not None:
        yield ("priceAdjustment",), "price and priceAdjustment exclude each other; remove one"


def _check_capacity(raw: Json) -> Iterable[tuple[Path, str]]:
    capacity = raw.get("capacity")
    for name in capacity if isinstance(capacity, dict) else ():
        if name in OF_THE_TYPE:
            yield (
                ("capacity", name),
                f"{name} is a fact of the instance type; add extended resources only",
            )


def _check_min_values(raw: Json) -> Iterable[tuple[Path, str]]:
    listed = raw.get("requirements")
    for index, entry in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(entry, dict) and entry.get("minValues") is not None:
            yield ("requirements", index, "minValues"), "has no meaning in an overlay; remove it"


class NodeOverlaySpec(ApiModel):
    """Which instance types are changed for the decision, and how."""

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
    )

    requirements: Annotated[list[V1Requirement], Field(max_length=MOST_REQUIREMENTS)]
    """Which instance types and offerings are meant; none given: all of them."""
    price_adjustment: Annotated[str, StringConstraints(pattern=ADJUSTMENT_PATTERN)] | None = None
    """What is added to the price, in USD per hour ("+0.01", "-0.5") or as a share of it ("+10%", "-15.5%")."""
    price: Annotated[str, StringConstraints(pattern=PRICE_PATTERN)] | None = None
    """The price instead, in USD per hour."""
    capacity: Resources = {}
    """Extended resources that these machines have beside those of their instance type."""
    weight: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Of several overlays for one instance type, that of the highest weight holds."""


class NodeOverlayStatus(ApiModel):
    """What the autoscaler last saw of this overlay."""

    conditions: list[StatusCondition] = []
    """Ready; false where an overlay of the same weight says something else."""


class NodeOverlay(Resource):
    """Corrects prices and resources of instance types before machines are chosen."""

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
    """Which instance types are changed for the decision, and how."""
    status: NodeOverlayStatus = NodeOverlayStatus()
    """What the autoscaler last saw of this overlay."""
