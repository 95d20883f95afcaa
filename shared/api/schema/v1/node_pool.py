"""Schema of karpenter.sh/v1 NodePool (NP-01..NP-18)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from shared.api.core.label_syntax import (
    LABEL_VALUE_FORM,
    cel_is_label_value,
    is_label_value,
    is_qualified_name,
)
from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.label_rules import cel_allowed_v1, cel_free_v1, reserved_v1
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.requirements import MinValuesRequirement
from shared.api.schema.scalars import Duration, DurationOrNever, ResourceList, worded
from shared.api.schema.taints import UNIQUE_RULE, V1Taint
from shared.domain import labels as keys
from shared.domain.pools.budgets import (
    LONGEST_NODES,
    LONGEST_SCHEDULE,
    NODES_PATTERN,
    SCHEDULE_PATTERN,
    schedule_fault,
)

NODES = "nodes"
"""Key in ``spec.limits`` of the limit on a pool's number of machines."""
LARGEST_COUNT = 2**31 - 1
MOST_REQUIREMENTS = 100
MOST_TAINTS = 100
MOST_RESOURCES = 100
LONGEST_ANNOTATION = 256 * 1024
"""Bytes; Kubernetes' limit for all annotations of an object together."""
WINDOW_PATTERN = r"^([0-9]{1,9}[hm])+(0s)?$"
Resources = Annotated[ResourceList, Field(max_length=MOST_RESOURCES)]


class NodeClassRef(ApiModel):
    """The node class: how AWS creates the machines."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("group is immutable; create a new object", "self.group == oldSelf.group"),
        Rule("kind is immutable; create a new object", "self.kind == oldSelf.kind"),
    )

    group: Annotated[str, *worded(r"^[^/]+$", "karpenter.k8s.aws", 253)]
    """API group of the node class: karpenter.k8s.aws."""
    kind: Annotated[str, Field(min_length=1, max_length=63)]
    """Kind of the node class: EC2NodeClass."""
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the node class. A change makes the existing machines drift, so they are replaced."""


def _check_labels(raw: Json) -> Iterable[tuple[Path, str]]:
    for key, value in _texts(raw, "labels"):
        if cause := reserved_v1(keys.normalise(key)):
            yield ("labels", key), cause
        if not is_label_value(value):
            yield ("labels", key), f"{value[:40]!r} is not a label value: {LABEL_VALUE_FORM}"


def check_annotations(raw: Json) -> Iterable[tuple[Path, str]]:
    """The keys in ``annotations`` that an API server refuses."""
    for key, _ in _texts(raw, "annotations"):
        # Kubernetes accepts upper-case letters in the domain of an annotation.
        if not is_qualified_name(key.lower()):
            yield (
                ("annotations", key),
                f"{key[:80]!r} is not a qualified name such as example.com/team",
            )


def _texts(raw: Json, name: str) -> Iterator[tuple[str, str]]:
    """The entries that are strings; the schema reports the others."""
    entries = raw.get(name)
    for key, value in entries.items() if isinstance(entries, dict) else ():
        if isinstance(key, str) and isinstance(value, str):
            yield key, value


class TemplateMetadata(ApiModel):
    """Labels and annotations of the machines."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "labels must not use keys that the autoscaler sets or reserves",
            f"!has(self.labels) || self.labels.all(k, {cel_free_v1('k')})",
            _check_labels,
        ),
        Rule(
            f"values of labels have {LABEL_VALUE_FORM}",
            f"!has(self.labels) || self.labels.all(k, {cel_is_label_value('self.labels[k]')})",
        ),
        Rule("annotations must have qualified names", check=check_annotations),
    )

    labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=100)] = {}
    """Labels of every node. Each also acts as a requirement with that one value."""
    annotations: Annotated[
        dict[str, Annotated[str, Field(max_length=LONGEST_ANNOTATION)]], Field(max_length=1000)
    ] = {}
    """Annotations of every node."""


def _check_keys(raw: Json) -> Iterable[tuple[Path, str]]:
    listed = raw.get("requirements")
    for index, entry in enumerate(listed if isinstance(listed, list) else []):
        key = entry.get("key") if isinstance(entry, dict) else None
        cause = reserved_v1(keys.normalise(key)) if isinstance(key, str) else ""
        if cause:
            yield ("requirements", index, "key"), cause


class TemplateSpec(ApiModel):
    """Requirements on the machines, and their lifetime."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "requirements must not use keys that the autoscaler sets or reserves",
            f"self.requirements.all(r, {cel_allowed_v1('r.key')})",
            _check_keys,
        ),
        UNIQUE_RULE,
    )

    requirements: Annotated[list[MinValuesRequirement], Field(max_length=MOST_REQUIREMENTS)]
    """Requirements on the labels of the machines. They apply in addition to the requirements of the pods."""
    taints: Annotated[list[V1Taint], Field(max_length=MOST_TAINTS)] = []
    """Taints of the nodes; only pods that tolerate them are placed here."""
    startup_taints: Annotated[list[V1Taint], Field(max_length=MOST_TAINTS)] = []
    """Taints that another agent removes when a node is set up; pods need not tolerate them."""
    node_class_ref: NodeClassRef
    """The node class: how AWS creates the machines."""
    expire_after: DurationOrNever = "720h"
    """Age at which a machine is removed, such as 720h; Never disables expiration."""
    termination_grace_period: Duration | None = None
    """How long a node may drain before its remaining pods are deleted; without it a drain has no time limit."""


class Template(ApiModel):
    """Template for the machines of this pool."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels and annotations of the machines."""
    spec: TemplateSpec
    """Requirements on the machines, and their lifetime."""


def check_window(raw: Json) -> Iterable[tuple[Path, str]]:
    """The faults of ``schedule`` and ``duration``."""
    schedule, duration = raw.get("schedule"), raw.get("duration")
    if (schedule is None) != (duration is None):
        missing = "schedule" if schedule is None else "duration"
        yield (
            (missing,),
            "schedule and duration must be set together; without both it always applies",
        )
    if isinstance(schedule, str) and (cause := schedule_fault(schedule)):
        yield ("schedule",), cause


def _check_reasons(raw: Json) -> Iterable[tuple[Path, str]]:
    listed = raw.get("reasons")
    seen: list[object] = []
    for index, reason in enumerate(listed if isinstance(listed, list) else []):
        if reason in seen:
            yield ("reasons", index), f"{str(reason)[:40]} is a duplicate; remove one"
        seen.append(reason)


class DisruptionBudget(ApiModel):
    """How many machines may be disrupted at once, optionally limited to certain times or reasons."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "schedule and duration must be set together",
            "has(self.schedule) == has(self.duration)",
            check_window,
        ),
        Rule("reasons must not repeat", check=_check_reasons),
    )

    nodes: Annotated[str, *worded(NODES_PATTERN, '"5" or "10%"', LONGEST_NODES)] = "10%"
    """A count such as "5", or a percentage of the pool's machines such as "10%", rounded up."""
    reasons: Annotated[
        list[Literal["Underutilized", "Empty", "Drifted"]],
        Field(max_length=50, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = []
    """Reasons that this budget limits; all reasons when empty."""
    schedule: (
        Annotated[
            str,
            Field(max_length=LONGEST_SCHEDULE, json_schema_extra={"pattern": SCHEDULE_PATTERN}),
        ]
        | None
    ) = None
    """When the budget begins to apply: a cron expression of five fields or a macro such as @daily, in UTC."""
    duration: Annotated[str, *worded(WINDOW_PATTERN, "8h or 1h30m")] | None = None
    """How long the budget applies each time, in hours and minutes, such as 1h30m."""


class Disruption(ApiModel):
    """When working machines may be removed or replaced."""

    consolidate_after: DurationOrNever
    """How long a machine must be without pod changes before it can be consolidated; Never disables consolidation."""
    consolidation_policy: Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] = (
        "WhenEmptyOrUnderutilized"
    )
    """Which machines are consolidated. Balanced consolidates only when the saving justifies the disruption."""
    budgets: Annotated[list[DisruptionBudget], Field(max_length=50)] = [DisruptionBudget()]
    """How many machines may be disrupted at once. If several budgets apply, the smallest limit counts."""


def _check_static(raw: Json) -> Iterable[tuple[Path, str]]:
    if raw.get("replicas") is None:
        return
    if raw.get("weight") is not None:
        yield (
            ("weight",),
            "cannot be combined with replicas, because pods do not select a static pool; remove one",
        )
    limits = raw.get("limits")
    for name in limits if isinstance(limits, dict) else ():
        if name != NODES:
            yield (
                ("limits", name),
                "cannot be limited in a pool with replicas, only nodes can; remove this limit",
            )


class NodePoolSpec(ApiModel):
    """Which machines the pool may have, how many, and when they are removed."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "replicas and weight cannot be combined; remove one",
            "!has(self.replicas) || !has(self.weight)",
            _check_static,
        ),
        Rule(
            "a pool with replicas can only limit nodes",
            f"!has(self.replicas) || !has(self.limits) || self.limits.all(k, k == '{NODES}')",
        ),
        Rule(
            "replicas cannot be added to or removed from an existing pool; create a new pool",
            "has(self.replicas) == has(oldSelf.replicas)",
        ),
    )

    template: Template
    """Template for the machines of this pool."""
    disruption: Disruption = Disruption(consolidate_after="0s")
    """When working machines may be removed or replaced."""
    limits: Resources = {}
    """Upper limits for the sum of all machines of this pool: cpu, memory, any other resource, and nodes."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """Pools of higher weight are tried first; a pool without a weight is tried last."""
    replicas: Annotated[int, Field(ge=0, le=LARGEST_COUNT)] | None = None
    """Fixed number of machines, independent of pods (a static pool); without it the pods determine the number."""


class NodePoolStatus(ApiModel):
    """Observed state of the pool."""

    resources: Resources = {}
    """Sum of the capacity of the pool's machines."""
    nodes: int | None = None
    """Number of machines of the pool."""
    node_class_observed_generation: int | None = None
    """Generation of the node class that the conditions refer to."""
    conditions: list[StatusCondition] = []
    """ValidationSucceeded, NodeClassReady, Ready (when both are true), and NodeRegistrationHealthy."""


class NodePool(Resource):
    """A NodePool defines which machines may be launched for pods that fit on no node, and when they are removed."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="karpenter.sh",
        version="v1",
        kind="NodePool",
        plural="nodepools",
        columns=(
            Column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            Column("Nodes", ".status.nodes", "integer"),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Age", ".metadata.creationTimestamp", "date"),
            Column("Weight", ".spec.weight", "integer", wide=True),
            Column("CPU", ".status.resources.cpu", wide=True),
            Column("Memory", ".status.resources.memory", wide=True),
        ),
        scale=(".spec.replicas", ".status.nodes"),
    )

    spec: NodePoolSpec
    """Which machines the pool may have, how many, and when they are removed."""
    status: NodePoolStatus = NodePoolStatus()
    """Observed state of the pool."""
