"""karpenter.sh/v1 NodePool (NP-01..NP-18)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.types import StringConstraints

from shared.api.core.label_syntax import is_label_value, is_qualified_name
from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.label_rules import cel_free_v1, reserved_v1
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.requirements import MinValuesRequirement
from shared.api.schema.scalars import Duration, DurationOrNever, ResourceList
from shared.api.schema.taints import V1Taint, check_unique
from shared.domain import labels as keys
from shared.domain.pools.budgets import (
    LONGEST_NODES,
    LONGEST_SCHEDULE,
    NODES_PATTERN,
    SCHEDULE_PATTERN,
    schedule_fault,
)

CLASS_GROUP = "karpenter.k8s.aws"
"""API group of the node classes."""
NODES = "nodes"
"""The limit on a pool's number of machines."""
LARGEST_COUNT = 2**31 - 1
MOST_REQUIREMENTS = 100
MOST_TAINTS = 100
MOST_RESOURCES = 100
LONGEST_ANNOTATION = 256 * 1024
"""What Kubernetes allows for all annotations of an object together."""
WINDOW_PATTERN = r"^([0-9]{1,9}[hm])+(0s)?$"
Resources = Annotated[ResourceList, Field(max_length=MOST_RESOURCES)]


class NodeClassRef(ApiModel):
    """Which object says how the cloud builds the machines."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("group cannot change: make a new object", "self.group == oldSelf.group"),
        Rule("kind cannot change: make a new object", "self.kind == oldSelf.kind"),
    )

    group: Annotated[str, StringConstraints(pattern=r"^[^/]+$", max_length=253)]
    """API group of the node class: karpenter.k8s.aws."""
    kind: Annotated[str, Field(min_length=1, max_length=63)]
    """Kind of the node class: EC2NodeClass."""
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the node class. Another name replaces the machines, one by one."""


def _check_labels(raw: Json) -> Iterable[tuple[Path, str]]:
    for key, value in _texts(raw, "labels"):
        if cause := reserved_v1(keys.normalise(key)):
            yield ("labels", key), cause
        if not is_label_value(value):
            yield ("labels", key), f"{value[:40]!r} is not a label value"


def _check_annotations(raw: Json) -> Iterable[tuple[Path, str]]:
    for key, _ in _texts(raw, "annotations"):
        # Kubernetes takes the domain of an annotation in any case.
        if not is_qualified_name(key.lower()):
            yield ("annotations", key), f"{key[:80]!r} is not a qualified name"


def _texts(raw: Json, name: str) -> Iterator[tuple[str, str]]:
    """The entries that are text; the types of the others are judged elsewhere."""
    said = raw.get(name)
    for key, value in said.items() if isinstance(said, dict) else ():
        if isinstance(key, str) and isinstance(value, str):
            yield key, value


class TemplateMetadata(ApiModel):
    """Labels and annotations of the machines."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "labels must not use keys that the autoscaler sets or keeps",
            f"!has(self.labels) || self.labels.all(k, {cel_free_v1('k')})",
            _check_labels,
        ),
        Rule("annotations must have qualified names", check=_check_annotations),
    )

    labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=100)] = {}
    """Labels for every node. Each also counts as a requirement with that one value."""
    annotations: Annotated[
        dict[str, Annotated[str, Field(max_length=LONGEST_ANNOTATION)]], Field(max_length=1000)
    ] = {}
    """Annotations for every node."""


def _check_keys(raw: Json) -> Iterable[tuple[Path, str]]:
    listed = raw.get("requirements")
    for index, entry in enumerate(listed if isinstance(listed, list) else []):
        key = entry.get("key") if isinstance(entry, dict) else None
        cause = reserved_v1(keys.normalise(key)) if isinstance(key, str) else ""
        if cause:
            yield ("requirements", index, "key"), cause


class TemplateSpec(ApiModel):
    """What the machines must be, and how long they live."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "requirements must not use keys that the autoscaler sets or keeps",
            f"self.requirements.all(r, {cel_free_v1('r.key')})",
            _check_keys,
        ),
        Rule("each pair of key and effect may be there once", check=check_unique),
    )

    requirements: Annotated[list[MinValuesRequirement], Field(max_length=MOST_REQUIREMENTS)]
    """What labels of the machines must, or must not, be. All of them hold together with what pods ask for."""
    taints: Annotated[list[V1Taint], Field(max_length=MOST_TAINTS)] = []
    """Taints of the nodes: only pods that tolerate them are placed here."""
    startup_taints: Annotated[list[V1Taint], Field(max_length=MOST_TAINTS)] = []
    """Taints that another agent removes once a node is set up: pods need not tolerate them."""
    node_class_ref: NodeClassRef
    """Which object says how the cloud builds the machines."""
    expire_after: DurationOrNever = "720h"
    """Age at which a machine is removed, such as 720h; Never keeps it."""
    termination_grace_period: Duration | None = None
    """How long a node may drain before its remaining pods are deleted; without it a drain may wait for ever."""


class Template(ApiModel):
    """What each machine of this pool is like."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels and annotations of the machines."""
    spec: TemplateSpec
    """What the machines must be, and how long they live."""


def _check_window(raw: Json) -> Iterable[tuple[Path, str]]:
    schedule, duration = raw.get("schedule"), raw.get("duration")
    if (schedule is None) != (duration is None):
        missing = "schedule" if schedule is None else "duration"
        yield (
            (missing,),
            "schedule and duration must be set together; without both a budget always applies",
        )
    if isinstance(schedule, str) and (cause := schedule_fault(schedule)):
        yield ("schedule",), cause


def _check_reasons(raw: Json) -> Iterable[tuple[Path, str]]:
    listed = raw.get("reasons")
    seen: list[object] = []
    for index, reason in enumerate(listed if isinstance(listed, list) else []):
        if reason in seen:
            yield ("reasons", index), f"{str(reason)[:40]} is there twice"
        seen.append(reason)


class DisruptionBudget(ApiModel):
    """How many machines may be disrupted at once, perhaps at certain times or for certain reasons only."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "schedule and duration must be set together",
            "has(self.schedule) == has(self.duration)",
            _check_window,
        ),
        Rule("each reason may be there once", check=_check_reasons),
    )

    nodes: Annotated[str, StringConstraints(pattern=NODES_PATTERN, max_length=LONGEST_NODES)] = (
        "10%"
    )
    """A count such as "5", or a percentage of the pool's machines such as "10%", rounded up."""
    reasons: Annotated[
        list[Literal["Underutilized", "Empty", "Drifted"]],
        Field(max_length=50, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = []
    """Reasons that this budget limits; none named: all of them."""
    schedule: (
        Annotated[
            str,
            Field(max_length=LONGEST_SCHEDULE, json_schema_extra={"pattern": SCHEDULE_PATTERN}),
        ]
        | None
    ) = None
    """When the budget begins to apply: five fields of cron, or @daily and its like, in UTC."""
    duration: Annotated[str, StringConstraints(pattern=WINDOW_PATTERN, max_length=64)] | None = None
    """For how long it applies each time, in hours and minutes, such as 1h30m."""


class Disruption(ApiModel):
    """When machines that still work may be removed or replaced."""

    consolidate_after: DurationOrNever
    """How long no pod may have come to or gone from a machine before it can be consolidated; Never switches it off."""
    consolidation_policy: Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] = (
        "WhenEmptyOrUnderutilized"
    )
    """Which machines are consolidated. Balanced: only where the saving is worth the disruption."""
    budgets: Annotated[list[DisruptionBudget], Field(max_length=50)] = [DisruptionBudget()]
    """How many machines may be disrupted at once. Of several that apply, the smallest holds."""


def _check_static(raw: Json) -> Iterable[tuple[Path, str]]:
    if raw.get("replicas") is None:
        return
    if raw.get("weight") is not None:
        yield (
            ("weight",),
            "a pool with replicas has no weight: pods do not choose it; remove one of both",
        )
    limits = raw.get("limits")
    for name in limits if isinstance(limits, dict) else ():
        if name != NODES:
            yield ("limits", name), "a pool with replicas can only limit nodes; remove this limit"


class NodePoolSpec(ApiModel):
    """What kind of machines may be bought, how many, and when they go again."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "a pool with replicas has no weight",
            "!has(self.replicas) || !has(self.weight)",
            _check_static,
        ),
        Rule(
            "a pool with replicas can only limit nodes",
            f"!has(self.replicas) || !has(self.limits) || self.limits.all(k, k == '{NODES}')",
        ),
        Rule(
            "replicas cannot be added to or removed from a pool that exists: make a new pool",
            "has(self.replicas) == has(oldSelf.replicas)",
        ),
    )

    template: Template
    """What each machine of this pool is like."""
    disruption: Disruption = Disruption(consolidate_after="0s")
    """When machines that still work may be removed or replaced."""
    limits: Resources = {}
    """Most that all machines of this pool together may have: cpu, memory, any other resource, and nodes."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """Pools of higher weight are tried first; without one a pool is tried last."""
    replicas: Annotated[int, Field(ge=0, le=LARGEST_COUNT)] | None = None
    """Keeps this many machines, whatever pods need; without it there are as many as pods need."""


class NodePoolStatus(ApiModel):
    """What the autoscaler last saw of this pool."""

    resources: Resources = {}
    """Summed capacity of the pool's machines."""
    nodes: int | None = None
    """How many machines the pool has."""
    node_class_observed_generation: int | None = None
    """Generation of the node class that the conditions speak of."""
    conditions: list[StatusCondition] = []
    """ValidationSucceeded, NodeClassReady, Ready (both of these), and NodeRegistrationHealthy."""


class NodePool(Resource):
    """A kind of machines that may be bought when pods need them."""

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
    """What kind of machines may be bought, how many, and when they go again."""
    status: NodePoolStatus = NodePoolStatus()
    """What the autoscaler last saw of this pool."""
