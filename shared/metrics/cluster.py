"""Gauges about the cluster as the leading scheduler sees it (MET-03, MET-05, MET-08, MET-10, provisioner_* of MET-12).

They are made whole from one picture when somebody scrapes, so what is gone from the cluster is gone from here. Amounts
are cores, bytes and units. Limits of pods are not among them: the mirror carries requests alone, which decide.
"""

from __future__ import annotations

from shared.domain import labels as keys
from shared.metrics.declaring import GAUGE, Declared

NOBODYS = "N/A"
"""The pool of what belongs to none, in Karpenter's words."""
WELL_KNOWN = {key.rpartition("/")[2].replace("-", "_"): key for key in sorted(keys.WELL_KNOWN)}
"""Label of a metric -> label of a node: Karpenter serves every well-known one."""
NODE_LABELS = ("node_name", "phase", "managed", "nodepool", "provisioner", *WELL_KNOWN)
"""``nodepool`` names the pool of either generation, ``provisioner`` that of v1alpha5. ``phase`` is what nodes have in
``status.phase``: no Kubernetes of today writes it."""


def _scheduler(name: str, text: str, *labels: str) -> Declared:
    return Declared(f"karpenter_{name}", GAUGE, text, labels, ("scheduler",))


def _of_nodes(name: str, text: str) -> Declared:
    return _scheduler(f"nodes_{name}", text, *NODE_LABELS, "resource_type")


ALLOCATABLE = _of_nodes("allocatable", "Allocatable resources of a node that Dovetail created.")
POD_REQUESTS = _of_nodes(
    "total_pod_requests", "Requests of all pods on a node, daemon pods included."
)
DAEMON_REQUESTS = _of_nodes("total_daemon_requests", "Requests of the daemon pods on a node.")
OVERHEAD = _of_nodes(
    "system_overhead",
    "Capacity of a node minus its allocatable resources.",
)
LIFETIME = _scheduler("nodes_current_lifetime_seconds", "Age of a node.", *NODE_LABELS)

USAGE = _scheduler(
    "nodepools_usage",
    "Capacity of a pool's machines.", "nodepool", "resource_type",
)  # fmt: skip
LIMIT = _scheduler("nodepools_limit", "A pool's limits.", "nodepool", "resource_type")
COST = _scheduler(
    "nodepools_cost_total",
    "Price of a pool's machines in US dollars per hour; machines of unknown price are left out.",
    "nodepool",
)
NAMESPACE_COST = Declared(
    "dovetail_namespace_cost_dollars_per_hour",
    GAUGE,
    "Parts of the machines' price that pods of a namespace cause by their dominant share; (idle): of no pod.",
    ("namespace",),
    ("scheduler",),
)
DEVICES = Declared(
    "dovetail_devices",
    GAUGE,
    "Devices that drivers published: held by claims (at least in part), or free. With IGNORE_DRA_REQUESTS=false.",
    ("driver", "state"),
    ("scheduler",),
)
DEVICE_CLAIMS = Declared(
    "dovetail_resource_claims",
    GAUGE,
    "ResourceClaims: allocated, or waiting for their devices. With IGNORE_DRA_REQUESTS=false.",
    ("state",),
    ("scheduler",),
)
OLD_USAGE = _scheduler(
    "provisioner_usage",
    "Capacity of a Provisioner's machines.", "provisioner", "resource_type",
)  # fmt: skip
OLD_LIMIT = _scheduler(
    "provisioner_limit", "A Provisioner's limits.", "provisioner", "resource_type"
)
OLD_USAGE_PERCENT = _scheduler(
    "provisioner_usage_pct",
    "Usage in percent of the limit.", "provisioner", "resource_type",
)  # fmt: skip

NODE_COUNT = _scheduler("cluster_state_node_count", "All nodes of the cluster.")
UTILIZATION = _scheduler(
    "cluster_utilization_percent",
    "Requests of all pods, in percent of the allocatable resources of all nodes.", "resource_type",
)  # fmt: skip
SYNCED = _scheduler(
    "cluster_state_synced",
    "1: this scheduler's copy of the cluster is verified and current; the standby serves it too.",
)
UNSYNCED_SECONDS = _scheduler(
    "cluster_state_unsynced_time_seconds",
    "How long the copy has not been verified and current; 0 while it is.",
)

CPU_CORES = _scheduler(
    "cloudprovider_instance_type_cpu_cores", "CPU cores of an instance type.", "instance_type"
)
MEMORY_BYTES = _scheduler(
    "cloudprovider_instance_type_memory_bytes", "Memory of an instance type.", "instance_type"
)
_OFFERING = ("instance_type", "capacity_type", "zone")
AVAILABLE = _scheduler(
    "cloudprovider_instance_type_offering_available",
    "0: EC2 recently had no capacity for this offering.", *_OFFERING,
)  # fmt: skip
PRICE = _scheduler(
    "cloudprovider_instance_type_offering_price_estimate",
    "Price in US dollars per hour.", *_OFFERING,
)  # fmt: skip
OLD_PRICE = _scheduler(
    "cloudprovider_instance_type_price_estimate",
    "The same under the name of v0.31, while there is a Provisioner.", *_OFFERING,
)  # fmt: skip

OF_NODES = (ALLOCATABLE, POD_REQUESTS, DAEMON_REQUESTS, OVERHEAD, LIFETIME)
OF_POOLS = (USAGE, LIMIT, COST, NAMESPACE_COST, OLD_USAGE, OLD_LIMIT, OLD_USAGE_PERCENT)
OF_DEVICES = (DEVICES, DEVICE_CLAIMS)
OF_TYPES = (CPU_CORES, MEMORY_BYTES, AVAILABLE, PRICE, OLD_PRICE)
CLUSTER = (
    *OF_NODES,
    *OF_POOLS,
    *OF_DEVICES,
    NODE_COUNT,
    UTILIZATION,
    SYNCED,
    UNSYNCED_SECONDS,
    *OF_TYPES,
)
