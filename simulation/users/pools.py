"""Manifests of pools and node classes in both API generations, and edits of them. Pure."""

from __future__ import annotations

from random import Random
from typing import Any

from cli.demo.workload import node_class, node_template
from shared.domain import labels
from shared.domain.pools.generations import V1, V1ALPHA5

Json = dict[str, Any]
POOLS = {V1: "nodepools", V1ALPHA5: "provisioners"}
CLASSES = {V1: "ec2nodeclasses", V1ALPHA5: "awsnodetemplates"}
CPU_LIMITS = ("24", "48", "96", "200")
"""Small enough that pools reach them."""
BUDGETS: tuple[list[Json], ...] = (
    [{"nodes": "10%"}],
    [{"nodes": "1"}],
    [{"nodes": "2"}, {"nodes": "1", "reasons": ["Drifted"]}],
    [{"nodes": "50%"}],
    [{"nodes": "100%"}],
    [{"nodes": "0", "reasons": ["Underutilized"]}, {"nodes": "30%"}],
)


def node_class_of(api: str, name: str, cluster: str) -> Json:
    """A node class for the subnets and security groups of ``cluster``."""
    document = node_class(cluster) if api == V1 else node_template(cluster)
    document["metadata"]["name"] = name
    return document


def pool_of(random: Random, api: str, name: str, class_name: str, zones: tuple[str, ...]) -> Json:
    """A pool of one generation with requirements, a limit and a way to remove machines that are drawn."""
    requirements = _requirements(random, zones)
    weight = {"weight": random.randint(1, 50)} if random.random() < 0.3 else {}
    limits = {"limits": _limits(random, api)} if random.random() < 0.6 else {}
    spec = (_v1_spec if api == V1 else _v1alpha5_spec)(random, class_name, requirements)
    version = {
        V1: ("karpenter.sh/v1", "NodePool"),
        V1ALPHA5: ("karpenter.sh/v1alpha5", "Provisioner"),
    }
    api_version, kind = version[api]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**spec, **weight, **limits},
    }


def _requirements(random: Random, zones: tuple[str, ...]) -> list[Json]:
    markets = random.choice(([labels.SPOT], [labels.ON_DEMAND], [labels.SPOT, labels.ON_DEMAND]))
    arches = random.choice((["amd64"], ["amd64"], ["amd64", "arm64"]))
    found = [
        _in(labels.CAPACITY_TYPE, markets),
        _in(labels.ARCH, arches),
        _in(f"{labels.AWS_PREFIX}instance-category", ["c", "m", "r"]),
        {"key": f"{labels.AWS_PREFIX}instance-generation", "operator": "Gt", "values": ["4"]},
        # Machines stay small, so that a few hundred pods make a cluster of some twenty nodes.
        {"key": f"{labels.AWS_PREFIX}instance-cpu", "operator": "Lt", "values": ["17"]},
    ]
    if random.random() < 0.25:
        found.append(
            _in(labels.ZONE, sorted(random.sample(zones, k=random.randint(1, len(zones)))))
        )
    return found


def _in(key: str, values: list[str]) -> Json:
    return {"key": key, "operator": "In", "values": values}


def _limits(random: Random, api: str) -> Json:
    limits = {"cpu": random.choice(CPU_LIMITS)}
    if api == V1 and random.random() < 0.2:
        limits["nodes"] = str(random.randint(2, 8))
    return limits if api == V1 else {"resources": limits}


def _v1_spec(random: Random, class_name: str, requirements: list[Json]) -> Json:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class_name}
    template: Json = {"nodeClassRef": reference, "requirements": requirements}
    template["expireAfter"] = random.choice(("Never", "Never", "720h", "4m"))
    if random.random() < 0.5:
        template["terminationGracePeriod"] = random.choice(("1m", "5m"))
    return {
        "template": {"spec": template},
        "disruption": {
            "consolidationPolicy": random.choice(("WhenEmpty", "WhenEmptyOrUnderutilized")),
            "consolidateAfter": random.choice(("10s", "30s", "1m")),
            "budgets": random.choice(BUDGETS),
        },
    }


def _v1alpha5_spec(random: Random, class_name: str, requirements: list[Json]) -> Json:
    removal: Json = random.choice(
        (
            {"ttlSecondsAfterEmpty": 30},
            {"ttlSecondsAfterEmpty": 60},
            {"consolidation": {"enabled": True}},
        )
    )
    expiry = {"ttlSecondsUntilExpired": 240} if random.random() < 0.2 else {}
    return {"providerRef": {"name": class_name}, "requirements": requirements, **removal, **expiry}


def pool_edit(random: Random, api: str) -> Json:
    """A merge patch of a pool's spec."""
    if api == V1ALPHA5:
        return random.choice(
            (
                {"limits": _limits(random, api)},
                {"weight": random.randint(1, 50)},
                {"labels": {"example.com/revision": str(random.randint(1, 9))}},
            )
        )
    return random.choice(
        (
            {"limits": {"cpu": random.choice(CPU_LIMITS)}},
            {"weight": random.randint(1, 50)},
            {"disruption": {"budgets": random.choice(BUDGETS)}},
            {"disruption": {"consolidateAfter": random.choice(("10s", "30s", "1m", "Never"))}},
            {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized"}},
            {"template": {"spec": {"expireAfter": random.choice(("Never", "4m", "720h"))}}},
            {
                "template": {
                    "metadata": {"labels": {"example.com/revision": str(random.randint(1, 9))}}
                }
            },
        )
    )


def tight_limits(random: Random, api: str) -> Json:
    """A merge patch of a pool's spec with room for a few machines."""
    limits = {
        "cpu": random.choice(("16", "32", "64", "128")),
        "memory": random.choice(("64Gi", "256Gi")),
    }
    if api == V1 and random.random() < 0.5:
        limits["nodes"] = str(random.randint(1, 5))
    return {"limits": limits if api == V1 else {"resources": limits}}


def no_room(api: str) -> Json:
    """A merge patch of a pool's spec with which it buys nothing."""
    limits = {"cpu": "1"}
    return {"limits": limits if api == V1 else {"resources": limits}}


def wide_limits(api: str) -> Json:
    """A merge patch of a pool's spec with room for everything."""
    limits = {"cpu": "1000", "memory": "4000Gi"}
    return {"limits": limits | {"nodes": None} if api == V1 else {"resources": limits}}


def without_expiry(api: str) -> Json:
    """A merge patch of a pool's spec after which its machines expire no more."""
    if api == V1ALPHA5:
        return {"ttlSecondsUntilExpired": None}
    return {"template": {"spec": {"expireAfter": "Never"}}}


def class_edit(random: Random, api: str) -> Json:
    """A merge patch of a class's spec that makes its machines drift."""
    number = random.randint(1, 9)
    script = f"#!/bin/bash\necho revision {number}\n"
    data = (
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n--//\n'
        f'Content-Type: text/x-shellscript; charset="us-ascii"\n\n{script}\n--//--\n'
    )
    edits: list[Json] = [{"tags": {"example.com/revision": str(number)}}, {"userData": data}]
    if api == V1:
        edits.append(
            {"amiSelectorTerms": [{"alias": random.choice(("al2@latest", "al2023@latest"))}]}
        )
    else:
        edits.append({"amiFamily": random.choice(("AL2", "Bottlerocket"))})
    return random.choice(edits)


def broken_pool(
    random: Random, api: str, name: str, class_name: str, zones: tuple[str, ...]
) -> Json:
    """A pool with a fault; some are refused by the API server, others only Dovetail can judge."""
    document = pool_of(random, api, name, class_name, zones)
    spec = document["spec"]
    inner = spec["template"]["spec"] if api == V1 else spec
    reference = inner["nodeClassRef"] if api == V1 else inner["providerRef"]
    match random.randrange(4):
        case 0:
            reference["name"] = "does-not-exist"
        case 1:
            inner["requirements"].append({"key": "no such key", "operator": "Exists"})
        case 2:
            inner["requirements"].append(_in(labels.ZONE, ["nowhere-1a"]))
        case _:
            inner["taints"] = [{"key": "-", "effect": "NoSchedule"}]
    return document
