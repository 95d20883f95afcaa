"""Label keys, taints and finalizers that users and other controllers match on (KEY-01..08, IT-40..46)."""

from __future__ import annotations

ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
HOSTNAME = "kubernetes.io/hostname"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
ZONE_ID = "topology.k8s.aws/zone-id"
WINDOWS_BUILD = "node.kubernetes.io/windows-build"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
PROVISIONER_NAME = "karpenter.sh/provisioner-name"
NODE_POOL = "karpenter.sh/nodepool"
INITIALIZED = "karpenter.sh/initialized"
REGISTERED = "karpenter.sh/registered"
AWS_PREFIX = "karpenter.k8s.aws/"

SPOT = "spot"
ON_DEMAND = "on-demand"
RESERVED = "reserved"

NODE_CLASS = "karpenter.k8s.aws/ec2nodeclass"
"""v1: on machines and nodes, the name of their class (NC-06)."""
AUTO_MODE_CLASS = "eks.amazonaws.com/nodeclass"
"""On nodes of EKS Auto Mode: the name of their class."""
COMPUTE_TYPE = "eks.amazonaws.com/compute-type"
AUTO_MODE = "auto"
"""Value of that label on nodes of EKS Auto Mode; those of Fargate have another."""

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DO_NOT_EVICT = "karpenter.sh/do-not-evict"
DO_NOT_REPAIR = "karpenter.sh/do-not-repair"
"""``true`` on a node or machine: node repair leaves it alone (TRM-23)."""
DO_NOT_CONSOLIDATE = "karpenter.sh/do-not-consolidate"
TERMINATION_TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
DISRUPTED_TAINT_KEY = "karpenter.sh/disrupted"
COMMAND_ANNOTATION = "dovetail.sh/command"
"""On every machine of a disruption command: the command and its progress, so that it survives a crash."""
JOINED_ANNOTATION = "dovetail.sh/joined-node"
"""On a machine that is not registered: the name of a node that joined for it, even if that node is gone (F24)."""
EPOCH_ANNOTATION = "dovetail.sh/epoch"
"""The scheduler's fencing epoch when it made the machine (F14)."""
DO_NOT_SYNC_TAINTS = "karpenter.sh/do-not-sync-taints"
"""LCH-39: on nodes whose boot script renders their taints; registration adds none."""
TAGGED_ANNOTATION = "karpenter.k8s.aws/tagged"
"""LCH-56: the claim's instance carries the names of node and claim."""
INSTANCE_PROFILE_ANNOTATION = "karpenter.k8s.aws/instance-profile-name"
"""NC-07: what the claim's instance was launched with."""
NODE_CLAIM_TAG = "karpenter.sh/nodeclaim"
MACHINE_TAG = "dovetail.sh/machine"
"""On an instance: the Machine of v1alpha5 that it was launched for."""
MANAGED_BY = "karpenter.sh/managed-by"
POOL_HASH = "karpenter.sh/nodepool-hash"
POOL_HASH_VERSION = "karpenter.sh/nodepool-hash-version"
CLASS_HASH = "karpenter.k8s.aws/ec2nodeclass-hash"
CLASS_HASH_VERSION = "karpenter.k8s.aws/ec2nodeclass-hash-version"
MIN_VALUES_RELAXED = "karpenter.sh/nodeclaim-min-values-relaxed"
PROVISIONER_HASH = "karpenter.sh/provisioner-hash"
NODE_TEMPLATE_HASH = "karpenter.k8s.aws/nodetemplate-hash"
HASHED_BY = "dovetail.sh/hashes"
"""The hash method of the other hash annotations; hashes of another controller must not count as drift (NP-20)."""
PACKING_ANNOTATION = "dovetail.sh/packing"
NODE_PRICE_ANNOTATION = "dovetail.sh/node-price"
"""On pools: what one more node counts beside its price when a plan is made, in US dollars per hour."""
CONSOLIDATION_ANNOTATION = "dovetail.sh/consolidation"
DISRUPTION_ANNOTATION = "dovetail.sh/disruption"
"""``off`` on a pool: a kill switch for all voluntary disruption of its machines."""
DISRUPTIONS_PER_HOUR_ANNOTATION = "dovetail.sh/disruptions-per-hour"
APPROVAL_ANNOTATION = "dovetail.sh/approval"
"""On pools: which disruption commands wait until somebody approves them (``shared.disruption.approval``)."""
UTILIZATION_ANNOTATION = "dovetail.sh/utilization-threshold"
"""On pools: nodes that are used as much are not consolidated, as with Cluster Autoscaler."""
DELAY_AFTER_ADD_ANNOTATION = "dovetail.sh/scale-down-delay-after-add"
DELAY_AFTER_DELETE_ANNOTATION = "dovetail.sh/scale-down-delay-after-delete"
DELAY_AFTER_FAILURE_ANNOTATION = "dovetail.sh/scale-down-delay-after-failure"
"""On pools: how long no node goes after a machine came or went, or a disruption failed, as with Cluster Autoscaler."""
MINIMUM_ANNOTATION = "dovetail.sh/minimum"
HEADROOM_ANNOTATION = "dovetail.sh/headroom"
HOURS_ANNOTATION = "dovetail.sh/hours"
OUTSIDE_HOURS_ANNOTATION = "dovetail.sh/outside-hours"
"""On pools: capacity that is kept whatever pods need, and opening hours (``shared.api.schema.pool_capacity``)."""
MIGRATION_ANNOTATION = "dovetail.sh/migration"
"""On a pool: that `dovetail migrate` halted it."""
INLINE_ANNOTATION = "dovetail.sh/inline-provider"
"""On an AWSNodeTemplate: the Provisioner whose ``spec.provider`` it is generated from."""
REBALANCE_ANNOTATION = "dovetail.sh/rebalance"
INTERRUPTION_ANNOTATION = "dovetail.sh/interruption"
MAINTENANCE_LEAD_ANNOTATION = "dovetail.sh/maintenance-lead"
WEBHOOK_ANNOTATION = "dovetail.sh/webhook"
"""On pools: what is done about interruptions (docs/spec/interruption.md)."""
REPLACE_ANNOTATION = "dovetail.sh/rebalance-recommended"
"""On a machine: the time of EC2's rebalance recommendation, if its pool replaces the machine before the drain."""
MAINTENANCE_ANNOTATION = "dovetail.sh/maintenance"
"""On a machine: its next scheduled event (``<start> <source> <event>``)."""
SPOT_ITN_TAINT_KEY = "aws-node-termination-handler/spot-itn"
REBALANCE_TAINT_KEY = "aws-node-termination-handler/rebalance-recommendation"
MAINTENANCE_TAINT_KEY = "aws-node-termination-handler/scheduled-maintenance"
"""INT-42: the taints of the AWS Node Termination Handler, on which dashboards and tolerations rely."""
LIFECYCLE_TAINT_KEY = "aws-node-termination-handler/asg-lifecycle-termination"
LIFECYCLE_ANNOTATION = "dovetail.sh/lifecycle-action"
"""On a node without a pool: the termination by its auto scaling group, and the end of its drain
(``lifecycle_actions``)."""
DRAINED_ANNOTATION = "dovetail.sh/drained"
"""On such a node: since when it is drained, or the time for its drain is over."""
IMPAIRED_TAINT_KEY = "dovetail.sh/impaired"
"""On a node that is cordoned because its instance fails EC2's status checks; there is no common key for this."""
PRICE_ANNOTATION = "dovetail.sh/price-micro-usd-per-hour"
DRA_DRIVERS_ANNOTATION = "karpenter.sh/requested-dra-drivers"
"""On a machine: the drivers whose devices its pods use, with commas between (DRA-07)."""
PLAN_ANNOTATION = "dovetail.sh/plan"
STATIC_PLAN, KEPT_PLAN = "static/", "kept/"
"""Its value begins so where no plan for pods bought the machine, but what its pool is to have."""
SHORT_ID = 12
"""So many characters of a decision's id are shown to people, and are enough to find it."""
ATTEMPT_ANNOTATION = "dovetail.sh/launch-attempt"
TRACE_ANNOTATION = "dovetail.sh/traceparent"
"""The span that created the machine: what is done about it later belongs to the same trace."""
LAUNCH_TOKEN_ANNOTATION = "dovetail.sh/launch-token"
"""Client token of the call that started a machine's instance (F1)."""
REPEATED_CALL_ANNOTATION = "dovetail.sh/repeated-call"
"""On a machine: the client token of the last call that may have been sent for it more than once (F30)."""

AUTHORITY_ANNOTATION = "dovetail.sh/cluster-ca"
"""On a NodeClaim: a digest of the cluster's certificate authority in the user data of its instance (EC-22)."""

FINALIZER = "karpenter.sh/termination"
CLASS_FINALIZER = "karpenter.k8s.aws/termination"
UNREGISTERED_TAINT_KEY = "karpenter.sh/unregistered"
EXCLUDE_FROM_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"

_AWS_INSTANCE_LABELS = (
    "instance-category", "instance-family", "instance-generation", "instance-size",
    "instance-hypervisor", "instance-cpu", "instance-cpu-manufacturer",
    "instance-cpu-sustained-clock-speed-mhz", "instance-memory", "instance-ebs-bandwidth",
    "instance-network-bandwidth", "instance-local-nvme",
    "instance-encryption-in-transit-supported", "instance-capability-flex", "instance-tenancy",
    "instance-gpu-name", "instance-gpu-manufacturer", "instance-gpu-count", "instance-gpu-memory",
    "instance-accelerator-name", "instance-accelerator-manufacturer", "instance-accelerator-count",
    "instance-pods", "instance-ami-id", "nitro-sandbox",
    "capacity-reservation-id", "capacity-reservation-type", "capacity-reservation-interruptible",
    "placement-group-id", "placement-group-partition",
)  # fmt: skip

GANG, GANG_SIZE = "dovetail.sh/gang", "dovetail.sh/gang-size"
"""Annotations of pods that are placed all or none (SCH-114). The first also of machines: the gangs, as
``namespace/name`` with commas between, for which alone one was bought (SCH-116)."""
GANG_TOPOLOGY = "dovetail.sh/gang-topology"
"""Annotation of such pods: the label of which all their nodes have one value (SCH-115)."""
CONSUMES_REQUEST = "autoscaling.x-k8s.io/consume-provisioning-request"
"""Annotation of pods that use the room of a ProvisioningRequest of their namespace (GAT-04)."""

PLACEMENT_GROUP = AWS_PREFIX + "placement-group-id"
PARTITION = AWS_PREFIX + "placement-group-partition"

WELL_KNOWN = frozenset(
    {ARCH, OS, INSTANCE_TYPE, ZONE, REGION, ZONE_ID, WINDOWS_BUILD, CAPACITY_TYPE}
    | {AWS_PREFIX + name for name in _AWS_INSTANCE_LABELS}
)
"""Keys whose values come from the cloud: a pod may require them even if its pool does not define them (SCH-09).

The labels of pools and classes are not included: each pool's template defines its own, and a pod that requires a
NodePool must not be placed on the machine of a Provisioner (MAP-01).
"""

ALIASES = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    "topology.ebs.csi.aws.com/zone": ZONE,
}
"""Old name of a label -> its current name."""


def normalise(key: str) -> str:
    """The current name of a legacy key; other keys unchanged (SCH-03)."""
    return ALIASES.get(key, key)
