"""The objects that a scenario applies, created from the files in ``manifests``.

The files can also be applied with kubectl. A scenario changes only what its settings name: replicas, requests, the TTL,
the capacity type and the cluster's discovery tag.

Errors: a CRD is missing (NotFound) or refuses the object (InvalidObject, with the field).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from cli.demo.snapshot import NAMESPACE
from local.cluster.api.patches import merge_patch
from shared.distribution.files import packaged
from shared.domain import labels
from shared.domain.pools.generations import GENERATIONS, V1, V1ALPHA5
from shared.domain.resources import format_resources
from shared.errors import AlreadyExists
from shared.kube.client import Kube, Object
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    EC2_NODE_CLASSES,
    NODE_POOLS,
    PROVISIONERS,
    Resource,
)

if TYPE_CHECKING:
    from cli.demo.scenarios import Scenario

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
WORKLOAD = "inflate"
MANIFESTS = packaged("cli.demo", "manifests")


def load_manifest(name: str) -> Object:
    """One of the files, by its name without suffix."""
    document: Object = yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text())
    return document


def provisioner(ttl_seconds_after_empty: int) -> Object:
    """The v1alpha5 pool, with its TTL."""
    document = load_manifest("provisioner")
    document["spec"]["ttlSecondsAfterEmpty"] = ttl_seconds_after_empty
    return document


def node_template(cluster: str) -> Object:
    """The node template, for the subnets and security groups of ``cluster``."""
    document = load_manifest("awsnodetemplate")
    tag = {"karpenter.sh/discovery": cluster}
    document["spec"] |= {
        "subnetSelector": tag,
        "securityGroupSelector": tag,
        "instanceProfile": f"KarpenterNodeInstanceProfile-{cluster}",
    }
    return document


def deployment(scenario: Scenario) -> Object:
    """The Deployment of ``scenario``, with 0 replicas."""
    document = load_manifest("inflate")
    pod = document["spec"]["template"]["spec"]
    requests = {"cpu": scenario.cpu_milli, "memory": scenario.memory_bytes}
    pod["containers"][0]["resources"]["requests"] = format_resources(requests)
    if scenario.only_added_nodes:
        pod["nodeSelector"] = {labels.CAPACITY_TYPE: scenario.capacity_type}
    if scenario.spread_max_skew is not None:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": scenario.spread_max_skew,
                "topologyKey": labels.HOSTNAME,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": WORKLOAD}},
            }
        ]
    return document


async def apply(kube: Kube, resource: Resource, document: Object) -> None:
    """Create the object, or merge-patch an existing one. Raises InvalidObject."""
    namespace = NAMESPACE if resource.namespaced else None
    try:
        await kube.create(resource, document, namespace)
    except AlreadyExists:
        await kube.patch(resource, document["metadata"]["name"], document, namespace)


def node_pool(ttl_seconds_after_empty: int) -> Object:
    """The v1 pool, with ``consolidateAfter`` as its TTL."""
    document = load_manifest("v1/nodepool")
    document["spec"]["disruption"]["consolidateAfter"] = f"{ttl_seconds_after_empty}s"
    return document


def node_class(cluster: str) -> Object:
    """The v1 node class, for the subnets and security groups of ``cluster``."""
    document = load_manifest("v1/ec2nodeclass")
    terms = [{"tags": {"karpenter.sh/discovery": cluster}}]
    document["spec"] |= {
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
        "role": f"KarpenterNodeRole-{cluster}",
    }
    return document


_KINDS = {
    GENERATIONS[V1ALPHA5]: (AWS_NODE_TEMPLATES, node_template, PROVISIONERS, provisioner),
    GENERATIONS[V1]: (EC2_NODE_CLASSES, node_class, NODE_POOLS, node_pool),
}
"""Node class and pool of each generation."""


async def apply_pool(
    kube: Kube,
    cluster: str,
    ttl_seconds_after_empty: int,
    generation_api: str = V1ALPHA5,
    *,
    capacity_type: str = labels.SPOT,
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Apply node class and pool of one generation. ``changes``: a merge patch of the pool's spec.

    Raises InvalidObject, and NotFound without the CRDs.
    """
    class_resource, class_of, pool_resource, pool_of = _KINDS[GENERATIONS[generation_api]]
    await apply(kube, class_resource, class_of(cluster))
    pool = pool_of(ttl_seconds_after_empty)
    requirements = pool["spec"].get("template", pool)["spec"]["requirements"]
    market = next(one for one in requirements if one["key"] == labels.CAPACITY_TYPE)
    market["values"] = [capacity_type]
    pool["spec"] = merge_patch(pool["spec"], dict(changes or {}))
    await apply(kube, pool_resource, pool)


def budget(*, most_unavailable: int) -> Object:
    """A PodDisruptionBudget for the workload's pods."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": WORKLOAD, "namespace": NAMESPACE},
        "spec": {
            "maxUnavailable": most_unavailable,
            "selector": {"matchLabels": {"app": WORKLOAD}},
        },
    }


async def scale(kube: Kube, replicas: int) -> None:
    """Scale the Deployment, as ``kubectl scale deployment inflate`` does. Raises NotFound."""
    await kube.patch(DEPLOYMENTS, WORKLOAD, {"spec": {"replicas": replicas}}, NAMESPACE)
