"""Columns of the built-in kinds other than pods, nodes and workloads, and the table of all columns by kind."""

from __future__ import annotations

from dataclasses import replace

from local.cluster.control_plane.conditions import is_true
from local.cluster.printing.columns import (
    AGE,
    DAEMON_SET,
    DEPLOYMENT,
    NAME,
    NODE,
    NONE,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    UNKNOWN,
    Cell,
    Column,
    at,
    count,
    since,
)
from local.cluster.storage.watches import Document
from shared.concurrency.clock import parse_rfc3339


def _event_time(name: str) -> Cell:
    def cell(event: Document, now: float) -> str:
        stamp = event.get(name) or event.get("eventTime") or event["metadata"]["creationTimestamp"]
        return since(stamp, now)

    return cell


def _event_object(event: Document, _now: float) -> str:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_source(event: Document, _now: float) -> str:
    source = event.get("source") or {}
    parts = [source.get("component") or event.get("reportingComponent"), source.get("host")]
    return ", ".join(part for part in parts if part)


def _message(event: Document, _now: float) -> str:
    return str(event.get("message") or "").strip()


EVENT = [
    Column("Last Seen", _event_time("lastTimestamp")),
    Column("Type", at("type")),
    Column("Reason", at("reason")),
    Column("Object", _event_object),
    Column("Subobject", at("involvedObject.fieldPath"), priority=1),
    Column("Source", _event_source, priority=1),
    Column("Message", _message),
    Column("First Seen", _event_time("firstTimestamp"), priority=1),
    Column("Count", at("count", 1), "integer", priority=1),
    replace(NAME, priority=1),
]


def _service_ports(service: Document, _now: float) -> str:
    ports = service["spec"].get("ports") or []
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or NONE


def _service_selector(service: Document, _now: float) -> str:
    selector = service["spec"].get("selector") or {}
    return ",".join(f"{name}={value}" for name, value in selector.items()) or NONE


SERVICE = [
    Column("Type", at("spec.type")),
    Column("Cluster-IP", at("spec.clusterIP", NONE)),
    Column("External-IP", at("spec.externalName", NONE)),
    Column("Port(s)", _service_ports),
    AGE,
    Column("Selector", _service_selector, priority=1),
]
BUDGET = [
    Column("Min Available", at("spec.minAvailable", "N/A")),
    Column("Max Unavailable", at("spec.maxUnavailable", "N/A")),
    Column("Allowed Disruptions", count("status.disruptionsAllowed"), "integer"),
    AGE,
]


def _job_status(job: Document, _now: float) -> str:
    for kind in ("Complete", "Failed", "Suspended"):
        if is_true(job, kind):
            return kind
    return "Terminating" if job["metadata"].get("deletionTimestamp") else "Running"


def _job_completions(job: Document, _now: float) -> str:
    completions = job["spec"].get("completions") or job["spec"].get("parallelism", 1)
    return f"{job.get('status', {}).get('succeeded', 0)}/{completions}"


def _job_duration(job: Document, now: float) -> str:
    status = job.get("status", {})
    if not status.get("startTime"):
        return ""
    done = status.get("completionTime")
    return since(status["startTime"], parse_rfc3339(done) if done else now)


JOB = [
    Column("Status", _job_status),
    Column("Completions", _job_completions),
    Column("Duration", _job_duration),
    AGE,
]


def _last_schedule(job: Document, now: float) -> str:
    stamp = job.get("status", {}).get("lastScheduleTime")
    return since(stamp, now) if stamp else NONE


def _suspended(job: Document, _now: float) -> str:
    return str(bool(job["spec"].get("suspend")))


CRON_JOB = [
    Column("Schedule", at("spec.schedule")),
    Column("Timezone", at("spec.timeZone", NONE)),
    Column("Suspend", _suspended),
    Column("Last Schedule", _last_schedule),
    AGE,
]


def _access_modes(volume: Document, _now: float) -> str:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(short.get(mode, mode) for mode in volume["spec"].get("accessModes") or [])


def _claim_of(volume: Document, _now: float) -> str:
    claim = volume["spec"].get("claimRef") or {}
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


CLAIM = [
    Column("Status", at("status.phase", "Pending")),
    Column("Volume", at("spec.volumeName")),
    Column("Capacity", at("status.capacity.storage")),
    Column("Access Modes", _access_modes),
    Column("StorageClass", at("spec.storageClassName")),
    AGE,
]
VOLUME = [
    Column("Capacity", at("spec.capacity.storage")),
    Column("Access Modes", _access_modes),
    Column("Reclaim Policy", at("spec.persistentVolumeReclaimPolicy")),
    Column("Status", at("status.phase", "Pending")),
    Column("Claim", _claim_of),
    Column("StorageClass", at("spec.storageClassName")),
    AGE,
]


def _entries(document: Document, _now: float) -> int:
    return len(document.get("data") or {}) + len(document.get("binaryData") or {})


DATA = Column("Data", _entries, "integer")


def _role_of(binding: Document, _now: float) -> str:
    reference = binding["roleRef"]
    return f"{reference['kind']}/{reference['name']}"


ROLE = [Column("Created At", at("metadata.creationTimestamp", UNKNOWN))]
BINDING = [Column("Role", _role_of), AGE]

COLUMNS: dict[str, list[Column]] = {
    "clusterrolebindings": BINDING,
    "clusterroles": ROLE,
    "configmaps": [DATA, AGE],
    "cronjobs": CRON_JOB,
    "customresourcedefinitions": [Column("Created At", at("metadata.creationTimestamp", UNKNOWN))],
    "daemonsets": DAEMON_SET,
    "deployments": DEPLOYMENT,
    "events": EVENT,
    "jobs": JOB,
    "leases": [Column("Holder", at("spec.holderIdentity")), AGE],
    "namespaces": [Column("Status", at("status.phase")), AGE],
    "nodes": NODE,
    "persistentvolumeclaims": CLAIM,
    "persistentvolumes": VOLUME,
    "poddisruptionbudgets": BUDGET,
    "pods": POD,
    "priorityclasses": [
        Column("Value", count("value"), "integer"),
        Column("Global-Default", at("globalDefault", False), "boolean"),
        AGE,
    ],
    "replicasets": REPLICA_SET,
    "rolebindings": BINDING,
    "roles": ROLE,
    "secrets": [Column("Type", at("type")), DATA, AGE],
    "services": SERVICE,
    "statefulsets": STATEFUL_SET,
    "storageclasses": [
        Column("Provisioner", at("provisioner")),
        Column("ReclaimPolicy", at("reclaimPolicy")),
        Column("VolumeBindingMode", at("volumeBindingMode")),
        Column("AllowVolumeExpansion", at("allowVolumeExpansion", False)),
        AGE,
    ],
}
