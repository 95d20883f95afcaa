"""karpenter.sh/v1alpha5 Provisioner as users write it (P-01..P-23, T-13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from shared.api.core.label_syntax import is_label_value
from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.label_rules import reserved_v1alpha5
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.kubelet import ProvisionerKubelet
from shared.api.schema.requirements import SelectorRequirement
from shared.api.schema.scalars import Text
from shared.api.schema.taints import NodeTaint, check_unique
from shared.api.schema.v1.node_pool import MOST_REQUIREMENTS, MOST_TAINTS, Resources
from shared.api.schema.v1alpha5.aws_node_template import AWSNodeTemplateSpec
from shared.domain import labels as keys

MOST_LABELS = 100
LARGEST_SECONDS = 2**31 - 1
LONGEST_VALUE = 63
LabelValue = Annotated[str, Field(max_length=LONGEST_VALUE)]
Seconds = Annotated[int, Field(ge=0, le=LARGEST_SECONDS)]


def _check_labels(raw: Json) -> Iterable[tuple[Path, str]]:
    """P-15: labels; P-17: restricted domains."""
    for key, value in _mapping(raw, "labels").items():
        cause = reserved_v1alpha5(keys.normalise(key)) if isinstance(key, str) else ""
        if cause:
            yield ("labels", key), cause
        short = isinstance(value, str) and len(value) <= LONGEST_VALUE
        if short and not is_label_value(value):
            yield ("labels", str(key)), f"{value!r} is not a label value"


def _check_keys(raw: Json) -> Iterable[tuple[Path, str]]:
    """P-16: rules for requirements; P-17: restricted domains."""
    listed = raw.get("requirements")
    for index, entry in enumerate(listed if isinstance(listed, list) else []):
        key = entry.get("key") if isinstance(entry, Mapping) else None
        cause = reserved_v1alpha5(keys.normalise(key)) if isinstance(key, str) else ""
        if cause:
            yield ("requirements", index, "key"), cause


def _check_consolidation(raw: Json) -> Iterable[tuple[Path, str]]:
    """P-12: consolidation excludes a time after empty."""
    enabled = _mapping(raw, "consolidation").get("enabled") is True
    if enabled and raw.get("ttlSecondsAfterEmpty") is not None:
        yield (
            ("consolidation",),
            "cannot be enabled together with ttlSecondsAfterEmpty; remove one",
        )


def _check_one_place(raw: Json) -> Iterable[tuple[Path, str]]:
    """P-07: provider or providerRef."""
    if "provider" in raw and "providerRef" in raw:
        yield ("provider",), "give either provider or providerRef, not both"
    elif "provider" not in raw and "providerRef" not in raw:
        yield (
            ("providerRef", "name"),
            "name the AWSNodeTemplate that says how to build nodes",
        )


def _mapping(raw: Json, name: str) -> Mapping[Any, Any]:
    said = raw.get(name)
    return said if isinstance(said, Mapping) else {}


_OURS = f"['{keys.PROVISIONER_NAME}', '{keys.HOSTNAME}', 'karpenter.sh/emptiness-timestamp']"


class NodeTemplateReference(ApiModel):
    """Names the AWSNodeTemplate that says how to build nodes."""

    api_version: Text | None = None
    """API version of the node template: karpenter.k8s.aws/v1alpha1."""
    kind: Literal["AWSNodeTemplate"] | None = None
    """Kind of the node template: AWSNodeTemplate."""
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the node template."""


class InlineProvider(AWSNodeTemplateSpec):
    """AWS settings in line, deprecated: what an AWSNodeTemplate says in its spec (T-13)."""

    api_version: Text | None = None
    """Said by old files; without meaning."""
    kind: Text | None = None
    """Said by old files; without meaning."""


class Limits(ApiModel):
    """Where the pool stops growing."""

    resources: Resources = {}
    """Most that all nodes of this pool together may have: cpu, memory and any other resource."""


class Consolidation(ApiModel):
    """Replacement of nodes by fewer or cheaper ones."""

    enabled: bool | None = None
    """Whether nodes are consolidated. Excludes ttlSecondsAfterEmpty."""


class ProvisionerSpec(ApiModel):
    """What nodes this pool may have."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "labels must not use keys that the autoscaler or Kubernetes keeps",
            f"!has(self.labels) || self.labels.all(key, !(key in {_OURS}))",
            _check_labels,
        ),
        Rule(
            "requirements must not use keys that the autoscaler or Kubernetes keeps",
            f"!has(self.requirements) || self.requirements.all(one, !(one.key in {_OURS}))",
            _check_keys,
        ),
        Rule("each pair of key and effect may be there once", check=check_unique),
        Rule(
            "consolidation cannot be enabled together with ttlSecondsAfterEmpty; remove one",
            "!has(self.ttlSecondsAfterEmpty) || !has(self.consolidation) || "
            "!has(self.consolidation.enabled) || !self.consolidation.enabled",
            _check_consolidation,
        ),
        Rule(
            "exactly one of provider and providerRef must say how to build nodes",
            "has(self.provider) != has(self.providerRef)",
            _check_one_place,
        ),
    )

    annotations: dict[str, str] = {}
    """Annotations of every node."""
    labels: Annotated[dict[str, LabelValue], Field(max_length=MOST_LABELS)] = {}
    """Labels of every node; each is a requirement as well."""
    taints: Annotated[list[NodeTaint], Field(max_length=MOST_TAINTS)] = []
    """Taints of every node; pods must tolerate them."""
    startup_taints: Annotated[list[NodeTaint], Field(max_length=MOST_TAINTS)] = []
    """Taints that nodes start with and that another agent removes; scheduling ignores them."""
    requirements: Annotated[list[SelectorRequirement], Field(max_length=MOST_REQUIREMENTS)] = []
    """What nodes must be like, beside what their pods ask. Where neither this nor a label says otherwise: linux, amd64,
    on-demand, and types of the categories c, m and r of generation 3 or later."""
    kubelet_configuration: ProvisionerKubelet | None = None
    """Settings of the kubelets."""
    provider: InlineProvider | None = None
    """AWS settings in line, deprecated: use providerRef. Exactly one of provider and providerRef is required."""
    provider_ref: NodeTemplateReference | None = None
    """The AWSNodeTemplate of the nodes. Exactly one of provider and providerRef is required."""
    ttl_seconds_after_empty: Seconds | None = None
    """Seconds after its last pod that a node is removed. Empty nodes stay when absent."""
    ttl_seconds_until_expired: Seconds | None = None
    """Age in seconds at which a node is replaced. Nodes do not expire when absent."""
    limits: Limits | None = None
    """Where the pool stops growing."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """Rank among pools: higher is tried first; absent counts as 0."""
    consolidation: Consolidation | None = None
    """Replacement of nodes by fewer or cheaper ones."""


class ProvisionerStatus(ApiModel):
    """What the pool has now."""

    resources: Resources = {}
    """Sum of the nodes' capacity."""
    last_scale_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When the pool last grew or shrank."""
    conditions: list[StatusCondition] = []
    """What the controllers observed last: Active, when machines may be made from the pool."""


class Provisioner(Resource):
    """A Provisioner says what nodes may be made for pods that fit nowhere, and when they go again."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="karpenter.sh",
        version="v1alpha5",
        kind="Provisioner",
        plural="provisioners",
        columns=(
            Column("Template", ".spec.providerRef.name"),
            Column("Weight", ".spec.weight", type="integer", wide=True),
        ),
    )

    spec: ProvisionerSpec
    """What nodes this pool may have."""
    status: ProvisionerStatus = ProvisionerStatus()
    """What the pool has now."""
