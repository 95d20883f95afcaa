"""The defaults that a real API server writes into built-in objects, as far as a program in the cluster reads them.

Works in place on an object that the store just copied. Sources: ``pkg/apis/*/v1/defaults.go`` and the default admission
plugins (Priority, DefaultTolerationSeconds, DefaultStorageClass). A default that is missing here shows as a difference
in ``kubectl diff``; probes and volume sources are not completed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from local.cluster.api.authorization.role_checks import default_binding
from local.cluster.builtin.resources import Resource
from local.cluster.storage.watches import Document

TOLERATION_SECONDS = 300
NOT_READY: Document = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": TOLERATION_SECONDS,
}
UNREACHABLE: Document = {**NOT_READY, "key": "node.kubernetes.io/unreachable"}
# One shared object for all pods: documents are read-only, and 10,000 pods would need 20,000 copies.

POD_SPEC: Document = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
}
SERVICE_ADDRESSES = 253


def fill(target: Document, defaults: Document) -> None:
    """Set the missing fields."""
    for name, value in defaults.items():
        if target.get(name) is None:
            target[name] = value


def default_pod_spec(spec: Document) -> None:
    """Pod spec defaults, for pods and for pod templates."""
    fill(spec, POD_SPEC)
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    for container in containers:
        _default_container(container)


def _default_container(container: Document) -> None:
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition(":")[2]
    latest = "@" not in image and tag in ("", "latest")
    fill(
        container,
        {
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always" if latest else "IfNotPresent",
            "resources": {},
        },
    )
    for port in container.get("ports") or []:
        fill(port, {"protocol": "TCP"})
    limits = container["resources"].get("limits")
    if limits:
        # A limit without a request is also the request.
        requests = container["resources"].get("requests") or {}
        container["resources"]["requests"] = {**limits, **requests}


def _pod(document: Document) -> None:
    spec = document["spec"]
    default_pod_spec(spec)
    fill(spec, {"enableServiceLinks": True, "serviceAccountName": "default"})
    fill(spec, {"preemptionPolicy": "PreemptLowerPriority", "tolerations": []})
    keys = {t.get("key") for t in spec["tolerations"] if t.get("effect") in (None, "", "NoExecute")}
    missing = [t for t in (NOT_READY, UNREACHABLE) if None not in keys and t["key"] not in keys]
    spec["tolerations"] = [*spec["tolerations"], *missing]


def quality_of_service(spec: Document) -> str:
    """``status.qosClass``: Guaranteed, Burstable or BestEffort."""
    containers = spec.get("containers") or []
    resources = [c.get("resources") or {} for c in containers]
    if not any(r.get("requests") or r.get("limits") for r in resources):
        return "BestEffort"
    for resource in resources:
        limits, requests = resource.get("limits") or {}, resource.get("requests") or {}
        if any(
            name not in limits or requests.get(name) != limits[name] for name in ("cpu", "memory")
        ):
            return "Burstable"
    return "Guaranteed"


def _template(document: Document) -> None:
    template = document["spec"].get("template") or {}
    if isinstance(template.get("spec"), dict):
        template.setdefault("metadata", {})
        default_pod_spec(template["spec"])


def _deployment(document: Document) -> None:
    strategy = document["spec"].setdefault("strategy", {})
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        fill(rolling, {"maxUnavailable": "25%", "maxSurge": "25%"})
    _template(document)


def _daemon_set(document: Document) -> None:
    fill(document["spec"], {"updateStrategy": {"type": "RollingUpdate"}})
    if document["spec"]["updateStrategy"].get("type") == "RollingUpdate":
        rolling = document["spec"]["updateStrategy"].setdefault("rollingUpdate", {})
        fill(rolling, {"maxUnavailable": 1, "maxSurge": 0})
    _template(document)


def _stateful_set(document: Document) -> None:
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    fill(document["spec"], {"updateStrategy": update})
    _template(document)


def _job(document: Document) -> None:
    spec, metadata = document["spec"], document["metadata"]
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    fill(spec, {"parallelism": 1})
    if not spec.get("selector") and not spec.get("manualSelector") and metadata.get("uid"):
        selected = {"batch.kubernetes.io/controller-uid": metadata["uid"]}
        spec["selector"] = {"matchLabels": selected}
        template = spec.setdefault("template", {})
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        labels |= {
            **selected,
            "controller-uid": metadata["uid"],
            "job-name": metadata["name"],
            "batch.kubernetes.io/job-name": metadata["name"],
        }
    _template(document)


def _service(document: Document) -> None:
    spec = document["spec"]
    for port in spec.get("ports") or []:
        fill(port, {"protocol": "TCP", "targetPort": port.get("port")})
    if spec["type"] != "ExternalName" and not spec.get("clusterIP"):
        number = int(document["metadata"].get("uid", "0")[:6], 16)
        second, third = divmod(number // SERVICE_ADDRESSES, 256)
        spec["clusterIP"] = f"10.{96 + second % 16}.{third}.{number % SERVICE_ADDRESSES + 2}"
        spec["clusterIPs"] = [spec["clusterIP"]]


def _namespace(document: Document) -> None:
    metadata = document["metadata"]
    metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]
    document.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])


def _secret(document: Document) -> None:
    document.setdefault("type", "Opaque")
    texts: dict[str, Any] = document.pop("stringData", None) or {}
    if texts:
        encoded = {k: base64.b64encode(str(v).encode()).decode() for k, v in texts.items()}
        document["data"] = {**(document.get("data") or {}), **encoded}


PLAIN_DEFAULTS: dict[str, Document] = {
    "priorityclasses": {"preemptionPolicy": "PreemptLowerPriority"},
    "storageclasses": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
}
SPEC_DEFAULTS: dict[str, Document] = {
    "cronjobs": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "daemonsets": {"revisionHistoryLimit": 10},
    "deployments": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "jobs": {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False},
    "persistentvolumeclaims": {"volumeMode": "Filesystem"},
    "persistentvolumes": {
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
    },
    "pods": {},
    "replicasets": {"replicas": 1},
    "services": {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    },
    "statefulsets": {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
    },
}
"""Scalar values only, because objects share them. Each of these kinds has a spec."""
DERIVED_DEFAULTS: dict[str, Callable[[Document], None]] = {
    "clusterrolebindings": default_binding,
    "daemonsets": _daemon_set,
    "deployments": _deployment,
    "jobs": _job,
    "namespaces": _namespace,
    "pods": _pod,
    "replicasets": _template,
    "rolebindings": default_binding,
    "secrets": _secret,
    "services": _service,
    "statefulsets": _stateful_set,
}

FIRST_STATUS: dict[str, Document] = {
    "namespaces": {"phase": "Active"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "persistentvolumes": {"phase": "Pending"},
}


def apply_defaults(resource: Resource, document: Document) -> None:
    """Complete a built-in object in place, at creation and at every update."""
    plural = resource.plural
    if resource.custom:
        return
    fill(document, PLAIN_DEFAULTS.get(plural, {}))
    if plural in SPEC_DEFAULTS:
        if not isinstance(document.get("spec"), dict):
            document["spec"] = {}
        fill(document["spec"], SPEC_DEFAULTS[plural])
    if plural in DERIVED_DEFAULTS:
        DERIVED_DEFAULTS[plural](document)


def first_status(resource: Resource, document: Document) -> Document | None:
    """The status of a new object, None for kinds without one."""
    if resource.plural == "pods":
        return {"phase": "Pending", "qosClass": quality_of_service(document["spec"])}
    return dict(FIRST_STATUS[resource.plural]) if resource.plural in FIRST_STATUS else None
