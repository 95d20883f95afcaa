"""Manifests of workloads and budgets: what people deploy. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from shared.domain import labels

Json = dict[str, Any]
NAMESPACE = "default"
IMAGE = "public.ecr.aws/eks-distro/kubernetes/pause:3.2"
STORAGE_CLASS = "gp3"
RUN_SECONDS = "local.dovetail.sh/run-seconds"
SIZES = (
    ("100m", "128Mi"),
    ("250m", "256Mi"),
    ("500m", "512Mi"),
    ("900m", "1Gi"),
    ("1500m", "2Gi"),
    ("3500m", "4Gi"),
)
"""Requests of one pod: cpu and memory. The small ones are the usual ones."""
SIZE_WEIGHTS = (4, 6, 5, 3, 2, 1)
GRACE_SECONDS = (0, 1, 5, 30)


def pod_template(
    random: Random, name: str, rules: Mapping[str, Any], annotations: Mapping[str, str]
) -> Json:
    """The template of a workload's pods, of a size that is drawn; ``rules`` go into its spec."""
    ((cpu, memory),) = random.choices(SIZES, SIZE_WEIGHTS)
    return {
        "metadata": {"labels": {"app": name}, "annotations": dict(annotations)},
        "spec": {
            "terminationGracePeriodSeconds": random.choice(GRACE_SECONDS),
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "resources": {"requests": {"cpu": cpu, "memory": memory}},
                }
            ],
            **rules,
        },
    }


def deployment(name: str, replicas: int, template: Json) -> Json:
    """A Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }


def stateful_set(name: str, replicas: int, template: Json) -> Json:
    """A StatefulSet whose pods start one after the other."""
    body = deployment(name, replicas, template)
    body["kind"] = "StatefulSet"
    body["spec"]["serviceName"] = name
    return body


def with_volumes(body: Json) -> Json:
    """The StatefulSet with a volume for each of its pods, in the zone of the pod's first node."""
    size = {"requests": {"storage": "8Gi"}}
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": STORAGE_CLASS, "resources": size}
    body["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    return body


def storage_class() -> Json:
    """The class of these volumes, which are made where their first pod is placed."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def daemon_set(name: str, cpu: str) -> Json:
    """A small pod for every node."""
    requests = {"requests": {"cpu": cpu, "memory": "32Mi"}}
    container = {"name": "main", "image": IMAGE, "resources": requests}
    body = deployment(name, 0, {"metadata": {"labels": {"app": name}}, "spec": {}})
    body["kind"] = "DaemonSet"
    del body["spec"]["replicas"]
    body["spec"]["template"]["spec"]["containers"] = [container]
    return body


def job(name: str, completions: int, run_seconds: int, template: Json) -> Json:
    """A Job whose pods end by themselves."""
    annotations = {**template["metadata"]["annotations"], RUN_SECONDS: str(run_seconds)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "completions": completions,
            "parallelism": completions,
            "backoffLimit": 100,
            "template": {
                "metadata": {**template["metadata"], "annotations": annotations},
                "spec": {**template["spec"], "restartPolicy": "Never"},
            },
        },
    }


def pod_budget(random: Random, name: str) -> Json:
    """A PodDisruptionBudget for the pods of one workload; one in four lets no pod go."""
    shares: list[Json] = [
        {"maxUnavailable": 1},
        {"maxUnavailable": "25%"},
        {"minAvailable": "50%"},
    ]
    allowed = {"maxUnavailable": 0} if random.random() < 0.25 else random.choice(shares)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {**allowed, "selector": {"matchLabels": {"app": name}}},
    }


def rules(random: Random, name: str, zones: tuple[str, ...]) -> Json:
    """What the pods of a workload ask of their nodes; for most workloads nothing."""
    draw = random.random()
    if draw < 0.45:
        return {}
    selector = {"labelSelector": {"matchLabels": {"app": name}}}
    found: list[Json] = [
        {"nodeSelector": {labels.ZONE: random.choice(zones)}},
        {"nodeSelector": {labels.CAPACITY_TYPE: random.choice((labels.SPOT, labels.ON_DEMAND))}},
        {"nodeSelector": {labels.ARCH: random.choice(("amd64", "amd64", "arm64"))}},
        {"topologySpreadConstraints": [_spread(labels.ZONE, "DoNotSchedule", selector)]},
        {"topologySpreadConstraints": [_spread(labels.HOSTNAME, "ScheduleAnyway", selector)]},
        {"affinity": {"podAntiAffinity": _preferred(labels.HOSTNAME, selector)}},
        {"affinity": {"podAffinity": _required(labels.ZONE, selector)}},
        apart(name),
    ]
    return random.choice(found)


def apart(name: str) -> Json:
    """The rule that each pod of the workload has a node of its own."""
    selector = {"labelSelector": {"matchLabels": {"app": name}}}
    return {"affinity": {"podAntiAffinity": _required(labels.HOSTNAME, selector)}}


def pod_annotations(random: Random) -> dict[str, str]:
    """Annotations of a workload's pods; for most workloads none."""
    draw = random.random()
    if draw < 0.06:
        return {labels.DO_NOT_DISRUPT: "true"}
    if draw < 0.10:
        return {labels.DO_NOT_DISRUPT: "2m"}
    if draw < 0.13:
        return {labels.DO_NOT_EVICT: "true"}
    return {}


def broken_rules(random: Random, name: str) -> Json:
    """Rules that no node can satisfy, or that are wrong: the pods wait, and must stop nobody else."""
    found: list[Json] = [
        {"nodeSelector": {labels.ZONE: "nowhere-1a"}},
        {"nodeSelector": {labels.INSTANCE_TYPE: "m5.gigantic"}},
        {"nodeSelector": {"example.com/undefined": "true"}},
        {"affinity": {"nodeAffinity": _node_affinity("Gt", ["many"])}},
        {"affinity": {"nodeAffinity": _node_affinity("In", [])}},
        {"affinity": {"podAffinity": _required(labels.ZONE, {"labelSelector": _nobody(name)})}},
    ]
    return random.choice(found)


def _nobody(name: str) -> Json:
    return {"matchLabels": {"app": f"{name}-does-not-exist"}}


def _spread(key: str, when: str, selector: Json) -> Json:
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, **selector}


def _required(key: str, selector: Json) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, **selector}]}


def _preferred(key: str, selector: Json) -> Json:
    term = {"weight": 50, "podAffinityTerm": {"topologyKey": key, **selector}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


def _node_affinity(operator: str, values: list[str]) -> Json:
    expression = {
        "key": f"{labels.AWS_PREFIX}instance-cpu",
        "operator": operator,
        "values": values,
    }
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}
