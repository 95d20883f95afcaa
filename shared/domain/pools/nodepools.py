"""Records of node pools and node classes, common to both API generations.

The fields follow v1; v1alpha5 is converted on reading (MAP-04 of the behaviour spec). Where the generations behave
differently (MAP-02), ``api`` says which rules hold.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint
from shared.domain.pools.generations import GENERATIONS, V1ALPHA5, Generation
from shared.domain.pools.windows import KeptCapacity, Window
from shared.domain.requirements import Requirements

WHEN_EMPTY = "WhenEmpty"
WHEN_UNDERUTILIZED = "WhenEmptyOrUnderutilized"
BALANCED = "Balanced"
"""Consolidation policies (NP-09)."""

UNDERUTILIZED, EMPTY, DRIFTED = "Underutilized", "Empty", "Drifted"
GRACEFULLY_EXPIRED = "Expired"
"""Of v1alpha5, whose expired machines are replaced first (DIS-61)."""
APPROVABLE = (DRIFTED, EMPTY, GRACEFULLY_EXPIRED, UNDERUTILIZED)
"""Disruption reasons whose commands can wait for an approval: those that Dovetail decides on by itself."""
"""Disruption reasons of budgets (NP-10)."""

KARPENTER, GLOBAL = "Karpenter", "Global"
CONSOLIDATORS = (KARPENTER, GLOBAL)
"""Algorithms of consolidation."""
BY_PACKING = "auto"
"""A setting in the place of an algorithm: Global for pools that LowestCost or Balanced packs, Karpenter for others."""

LEAST_LIFE_SECONDS = 60.0
"""About what an instance needs to become a ready node."""

DELETE, CORDON, DRY_RUN = "delete", "cordon", "dry-run"
INTERRUPTION_MODES = (DELETE, CORDON, DRY_RUN)
"""Actions on a machine that is interrupted."""
IGNORE, DRAIN = "off", "drain"
REBALANCE_ACTIONS = (IGNORE, CORDON, DRAIN)
"""Actions on a machine with a rebalance recommendation (INT-40, INT-43)."""


class PackingPolicy(StrEnum):
    """How the machines of a pool are chosen."""

    FEWEST_NODES = "FewestNodes"
    LOWEST_COST = "LowestCost"
    BALANCED = "Balanced"
    """LowestCost with a price per node of its own."""


FEWEST_NODES, LOWEST_COST, _ = PackingPolicy


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many machines of a pool may be disrupted at once (NP-10, NP-11)."""

    nodes: str = "10%"
    """A count or a percentage, as written."""
    reasons: tuple[str, ...] = ()
    """Empty: every reason."""
    schedule: str = ""
    """A cron expression of five fields or a macro such as ``@daily``, in UTC; empty: always."""
    duration_seconds: float | None = None


class NodePool(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which machines may be launched, and when they are removed."""

    uid: str
    name: str
    generation_api: str = V1ALPHA5
    """The API generation of the stored object; determines kind, label and semantics (MAP-01, MAP-02)."""
    generation: int = 0
    node_class: str = ""
    """Name of the node class of the same generation."""
    requirements: tuple[Expression, ...] = ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    kubelet: dict[str, object] = {}
    """v1alpha5 only: in v1 the kubelet's settings belong to the node class."""
    limits: dict[str, int] = {}
    weight: int = 0
    expire_seconds: float | None = None
    """None: never. v1alpha5 replaces first (MAP-02), v1 does not."""
    consolidation_policy: str = WHEN_EMPTY
    consolidate_after_seconds: float | None = None
    """None: never. For v1alpha5 with WhenEmpty: ttlSecondsAfterEmpty."""
    budgets: tuple[Budget, ...] = ()
    """Empty: no limit. The default of v1 is one budget of 10 %."""
    termination_grace_seconds: float | None = None
    """None: a drain has no time limit (NP-06)."""
    replicas: int | None = None
    """Number of machines of a static pool (NP-13); None: determined by pods."""
    packing: str = ""
    """Packing policy of this pool, a ``PackingPolicy``; empty: the scheduler's own setting."""
    node_price: int | None = None
    """What one more node counts beside its price, in micro-USD per hour; None: the scheduler's own setting."""
    consolidator: str = ""
    """Karpenter or Global; empty: the scheduler's own setting."""
    disruption_off: bool = False
    """Whether voluntary disruption of this pool is disabled."""
    most_disruptions_per_hour: int | None = None
    """A rate limit, in addition to the budgets, which limit concurrent disruptions; None: no limit."""
    approval: tuple[str, ...] = ()
    """Disruption reasons, of ``APPROVABLE``, whose commands wait until somebody approves them."""
    interruption: str = ""
    """delete, cordon or dry-run; empty: the interruption service's own setting."""
    rebalance: str = ""
    """off, cordon or drain; empty: the interruption service's own setting."""
    maintenance_lead_seconds: float | None = None
    """How long before its start a scheduled event is handled; None: the interruption service's own setting."""
    webhook_off: bool = False
    """Whether webhook notifications about machines of this pool are disabled."""
    utilization_threshold: int | None = None
    """Percent of use from which on a node is not consolidated; None: the scheduler's own setting."""
    delay_after_add: float | None = None
    """Seconds without emptiness and consolidation after a machine of the pool was created; None: the scheduler's own
    setting, which goes by the machines of all pools."""
    delay_after_delete: float | None = None
    delay_after_failure: float | None = None
    """The same after a disruption was rolled back."""
    minimum: tuple[KeptCapacity, ...] = ()
    """Capacity that the pool has at least, whatever pods need; the counterpart of ``limits``."""
    headroom: tuple[KeptCapacity, ...] = ()
    """Capacity that is kept free for pods to come."""
    hours: tuple[Window, ...] = ()
    """When the pool is open; empty: always."""
    drains_when_closed: bool = False
    """Whether its machines are deleted outside its hours."""
    closed: str = ""
    """Why the pool is closed now. Set in snapshots only, from ``hours`` and their time."""
    terminating: bool = False
    fault: str = ""
    """Why the pool is not ready, for messages. Set in simulations only; in a cluster the node class decides."""
    usage: dict[str, int] = {}
    """status.resources: the sum of the machines' capacity."""
    hash: str = ""
    """Hash of the fields whose change causes drift (NP-19)."""

    @property
    def api(self) -> Generation:
        """The rules of its generation."""
        return GENERATIONS[self.generation_api]

    @property
    def kind(self) -> str:
        return self.api.pool_kind

    @property
    def key(self) -> str:
        """``NodePool/default``: unique, though a Provisioner may have the same name."""
        return f"{self.kind}/{self.name}"

    @property
    def node_class_key(self) -> str:
        """Key of its node class."""
        return f"{self.api.class_kind}/{self.node_class}"

    @property
    def label_key(self) -> str:
        return self.api.pool_label

    @property
    def empty_ttl_seconds(self) -> float | None:
        """After how many seconds without pods a machine is removed; None: never."""
        if self.api.waits_until_consolidatable or self.consolidation_policy == WHEN_EMPTY:
            return self.consolidate_after_seconds
        return None

    @property
    def has_delay(self) -> bool:
        """Whether a delay of its own may hold its machines."""
        return bool(self.delay_after_add or self.delay_after_delete or self.delay_after_failure)

    @property
    def is_static(self) -> bool:
        return self.replicas is not None

    @property
    def lives_too_short(self) -> bool:
        """Whether its machines are too old before a node can be ready, so that one follows another without end."""
        return self.expire_seconds is not None and self.expire_seconds < LEAST_LIFE_SECONDS


class SelectorTerm(msgspec.Struct, frozen=True, omit_defaults=True):
    """A selector of subnets, security groups, images or reservations; all its fields must match (EC-01..05).

    A tag's value may contain the wildcard ``*``; ``*`` alone matches any value of the key.
    """

    tags: dict[str, str] = {}
    id: str = ""
    name: str = ""
    owner: str = ""
    """Of images: account ids or names, separated by commas (T-10); of reservations: the owner's account."""
    alias: str = ""
    ssm_parameter: str = ""
    match_criteria: str = ""
    """Of capacity reservations: open or targeted."""


class SubnetRef(msgspec.Struct, frozen=True):
    """A resolved subnet of a node class."""

    id: str
    zone: str
    zone_id: str = ""


class NodeClass(msgspec.Struct, frozen=True, omit_defaults=True):
    """How machines are created in AWS. Terms of one list are alternatives."""

    uid: str
    name: str
    generation_api: str = V1ALPHA5
    generation: int = 0
    subnet_terms: tuple[SelectorTerm, ...] = ()
    security_group_terms: tuple[SelectorTerm, ...] = ()
    image_terms: tuple[SelectorTerm, ...] = ()
    """Empty (v1alpha5): the family's recommended image."""
    reservation_terms: tuple[SelectorTerm, ...] = ()
    placement_group: dict[str, str] = {}
    ami_family: str = "AL2"
    role: str = ""
    """v1: an instance profile is created for this role (EC-21)."""
    instance_profile: str = ""
    user_data: str = ""
    context: str = ""
    detailed_monitoring: bool = False
    tags: dict[str, str] = {}
    launch_template: str = ""
    """v1alpha5: name of a custom launch template (T-07)."""
    metadata_options: dict[str, object] = {}
    block_device_mappings: tuple[dict[str, object], ...] = ()
    kubelet: dict[str, object] = {}
    """v1 only."""
    associate_public_ip: bool | None = None
    ip_prefix_count: int | None = None
    instance_store_policy: str = ""
    network_interfaces: tuple[dict[str, object], ...] = ()
    connection_tracking: dict[str, object] = {}
    cpu_options: dict[str, object] = {}
    enclave_options: dict[str, object] = {}
    subnets: tuple[SubnetRef, ...] = ()
    """status.subnets; empty until the launcher resolved the selector."""
    image_ids: tuple[str, ...] = ()
    """status.amis, sorted: the images of its machines."""
    placement_group_id: str = ""
    """status.placementGroup."""
    partitions: int = 0
    """Number of partitions of its placement group; 0 unless that is a partition group."""
    spreads: bool = False
    """Whether that is a spread group, which takes few instances per zone (EC-06)."""
    ready: bool = False
    """The launcher found subnets, security groups and images."""
    fault: str = ""
    """Why the class is not ready, for messages."""
    terminating: bool = False
    hash: str = ""
    """Hash of the fields whose change causes drift (EC-22)."""

    @property
    def api(self) -> Generation:
        """The rules of its generation."""
        return GENERATIONS[self.generation_api]

    @property
    def kind(self) -> str:
        return self.api.class_kind

    @property
    def key(self) -> str:
        """``EC2NodeClass/default``."""
        return f"{self.kind}/{self.name}"


def by_preference(pools: list[NodePool]) -> list[NodePool]:
    """NP-22: by weight descending, then by name descending; of equal names v1alpha5 first, for a stable order."""
    return sorted(pools, key=lambda pool: (pool.weight, pool.name, pool.kind), reverse=True)


def pool_requirements(pool: NodePool) -> Requirements:
    """The pool's requirements, its labels (P-02), and the labels of pool and node class (NC-06). Raises
    InvalidObject."""
    return Requirements.of(pool.requirements, {**pool.labels, **named_labels(pool)})


def named_labels(pool: NodePool) -> dict[str, str]:
    """The labels of its machines that name the pool, and in v1 its class."""
    names = {pool.label_key: pool.name}
    if pool.api.labels_node_class:
        names[keys.NODE_CLASS] = pool.node_class
    return names
