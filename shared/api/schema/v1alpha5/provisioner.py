"""karpenter.sh/v1alpha5 Provisioner as users write it (P-01..P-23, T-13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from shared.api.core.label_syntax import LABEL_VALUE_FORM, cel_is_label_value, is_label_value
from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.label_rules import (
    cel_allowed_v1alpha5,
    cel_free_v1alpha5,
    reserved_v1alpha5,
)
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.kubelet import ProvisionerKubelet
from shared.api.schema.requirements import SelectorRequirement
from shared.api.schema.scalars import Text
from shared.api.schema.taints import UNIQUE_RULE, NodeTaint
from shared.api.schema.v1.node_pool import (
    MOST_REQUIREMENTS,
    MOST_TAINTS,
    Resources,
    check_annotations,
)
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
            yield ("labels", str(key)), f"{value!r} is not a label value: {LABEL_VALUE_FORM}"


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
        yield ("provider",), "cannot be combined with providerRef; remove one"
    elif "provider" not in raw and "providerRef" not in raw:
        yield (
            ("providerRef", "name"),
            "is required: the name of an AWSNodeTemplate",
        )


def _mapping(raw: Json, name: str) -> Mapping[Any, Any]:
    value = raw.get(name)
    return value if isinstance(value, Mapping) else {}


class NodeTemplateReference(ApiModel):
    """Reference to the AWSNodeTemplate that defines how nodes are created."""

    api_version: Text | None = None
    """API version of the node template: karpenter.k8s.aws/v1alpha1."""
    kind: Literal["AWSNodeTemplate"] | None = None
    """Kind of the node template: AWSNodeTemplate."""
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the node template."""


class InlineProvider(AWSNodeTemplateSpec):
    """Inline AWS settings, deprecated: the spec of an AWSNodeTemplate (T-13)."""

    api_version: Text | None = None
    """Accepted for compatibility with old files; ignored."""
    kind: Text | None = None
    """Accepted for compatibility with old files; ignored."""


class Limits(ApiModel):
    """Limits on the size of the pool."""

    resources: Resources = {}
    """Upper limits for the sum of all nodes of this pool: cpu, memory and any other resource."""


class Consolidation(ApiModel):
    """Replacement of nodes by fewer or cheaper ones."""

    enabled: bool | None = None
    """Whether nodes are consolidated. Excludes ttlSecondsAfterEmpty."""


class ProvisionerSpec(ApiModel):
    """Which nodes the pool may have, and when they are removed."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "labels must not use keys that the autoscaler or Kubernetes reserves",
            f"!has(self.labels) || self.labels.all(key, {cel_free_v1alpha5('key')})",
            _check_labels,
        ),
        Rule(
            f"values of labels have {LABEL_VALUE_FORM}",
            f"!has(self.labels) || self.labels.all(key, {cel_is_label_value('self.labels[key]')})",
        ),
        Rule(
            "requirements must not use keys that the autoscaler or Kubernetes reserves",
            "!has(self.requirements) || "
            f"self.requirements.all(one, {cel_allowed_v1alpha5('one.key')})",
            _check_keys,
        ),
        Rule("annotations must have qualified names", check=check_annotations),
        UNIQUE_RULE,
        Rule(
            "consolidation cannot be enabled together with ttlSecondsAfterEmpty; remove one",
            "!has(self.ttlSecondsAfterEmpty) || !has(self.consolidation) || "
            "!has(self.consolidation.enabled) || !self.consolidation.enabled",
            _check_consolidation,
        ),
        Rule(
            "exactly one of provider and providerRef is required",
            "has(self.provider) != has(self.providerRef)",
            _check_one_place,
        ),
    )

    annotations: dict[str, str] = {}
    """Annotations of every node."""
    labels: Annotated[dict[str, LabelValue], Field(max_length=MOST_LABELS)] = {}
    """Labels of every node. Each also acts as a requirement with that one value."""
    taints: Annotated[list[NodeTaint], Field(max_length=MOST_TAINTS)] = []
    """Taints of every node; only pods that tolerate them are placed here."""
    startup_taints: Annotated[list[NodeTaint], Field(max_length=MOST_TAINTS)] = []
    """Taints that another agent removes when a node is set up; pods need not tolerate them."""
    requirements: Annotated[list[SelectorRequirement], Field(max_length=MOST_REQUIREMENTS)] = []
    """Requirements on the labels of nodes. They apply in addition to the requirements of the pods. Defaults, unless a
    requirement or label sets the key: linux, amd64, on-demand, instance categories c, m and r of generation 3 or
    later."""
    kubelet_configuration: ProvisionerKubelet | None = None
    """Settings of the kubelet."""
    provider: InlineProvider | None = None
    """Inline AWS settings, deprecated: use providerRef. Exactly one of provider and providerRef is required."""
    provider_ref: NodeTemplateReference | None = None
    """The AWSNodeTemplate of the nodes. Exactly one of provider and providerRef is required."""
    ttl_seconds_after_empty: Seconds | None = None
    """Seconds after which a node without pods is removed. When absent, empty nodes are not removed."""
    ttl_seconds_until_expired: Seconds | None = None
    """Age in seconds at which a node is replaced. When absent, nodes do not expire."""
    limits: Limits | None = None
    """Limits on the size of the pool."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """Pools of higher weight are tried first; absent counts as 0."""
    consolidation: Consolidation | None = None
    """Replacement of nodes by fewer or cheaper ones."""


class ProvisionerStatus(ApiModel):
    """Observed state of the pool."""

    resources: Resources = {}
    """Sum of the capacity of the pool's nodes."""
    last_scale_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When the pool last grew or shrank."""
    conditions: list[StatusCondition] = []
    """Latest observations of the controllers: Active is true when the pool may launch machines."""


class Provisioner(Resource):
    """A Provisioner defines which nodes may be launched for pods that fit on no node, and when they are removed."""

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
    """Which nodes the pool may have, and when they are removed."""
    status: ProvisionerStatus = ProvisionerStatus()
    """Observed state of the pool."""
