"""Objects of our kinds that the API server refuses, each by the rule of its definition."""

from __future__ import annotations

from tests.support.cluster.our_kinds import (
    CLAIM,
    CLASS,
    MACHINE,
    OVERLAY,
    POOL,
    PROVISIONER,
    RECORD,
    TEMPLATE,
    ZONE,
    Document,
    Kind,
)

SEAT = {"key": "example.com/seat", "effect": "NoSchedule"}
POOL_TEMPLATE = POOL.spec["template"]

ODD_VALUE = {"key": ZONE, "operator": "In", "values": ["a b"]}
BAD_IN = {"key": ZONE, "operator": "In"}
EBS = [{"deviceName": "/dev/xvda", "ebs": {"encrypted": True}}]
RESERVED = 'spec.kubeletConfiguration.systemReserved.cpu: Invalid value: "-1"'


def volume(size: int | str) -> Document:
    """Block devices with one volume of that size."""
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}]}


REFUSED_ON_APPLY: list[tuple[Kind, Document, str]] = [
    (PROVISIONER, {"weight": 101}, "spec.weight: Invalid value: 101"),
    (PROVISIONER, {"requirements": [{"key": ZONE}]}, "spec.requirements[0].operator: Required"),
    (
        PROVISIONER,
        {"consolidation": {"enabled": True}, "ttlSecondsAfterEmpty": 30},
        'spec: Invalid value: "object": consolidation cannot be enabled together',
    ),
    (PROVISIONER, {"provider": {}}, "exactly one of provider and providerRef"),
    (PROVISIONER, {"labels": {"karpenter.sh/provisioner-name": "a"}}, "labels must not use keys"),
    (TEMPLATE, {"amiFamily": "Gentoo"}, 'spec.amiFamily: Unsupported value: "Gentoo"'),
    (TEMPLATE, {"launchTemplate": "mine"}, "cannot be combined with launchTemplate"),
    (TEMPLATE, {"subnetSelector": None}, "subnetSelector is required"),
    (TEMPLATE, {"blockDeviceMappings": EBS}, "spec.blockDeviceMappings[0].ebs: Invalid value"),
    (MACHINE, {"requirements": [BAD_IN]}, "spec.requirements[0]: Invalid value"),
    (POOL, {"weight": 0}, "spec.weight: Invalid value: 0"),
    (POOL, {"template": None}, "spec.template: Required value"),
    (POOL, {"replicas": 2}, "replicas and weight cannot be combined"),
    (
        POOL,
        {"disruption": {"consolidateAfter": "0s", "budgets": [{"schedule": "@daily"}]}},
        "spec.disruption.budgets[0]",
    ),
    (POOL, {"template": {"spec": {"requirements": [BAD_IN]}}}, "template.spec.requirements[0]"),
    (CLAIM, {"nodeClassRef": {"name": None}}, "spec.nodeClassRef.name: Required value"),
    (CLAIM, {"requirements": [BAD_IN]}, "spec.requirements[0]: Invalid value"),
    (CLASS, {"instanceProfile": "p"}, "exactly one of role and instanceProfile"),
    (CLASS, {"role": None}, "exactly one of role and instanceProfile"),
    (CLASS, {"amiSelectorTerms": [{"alias": "al3@latest"}]}, "spec.amiSelectorTerms[0]"),
    (CLASS, {"amiFamily": "AL2"}, "amiFamily must be the family of the alias"),
    (CLASS, {"subnetSelectorTerms": [{}]}, "spec.subnetSelectorTerms[0]: Invalid value"),
    (CLASS, {"tags": {"kubernetes.io/cluster/demo": "owned"}}, "tags must have keys other than"),
    (OVERLAY, {"price": "1.5"}, "price and priceAdjustment exclude each other"),
    (RECORD, {"machines": []}, "spec.machines: Invalid value"),
    (PROVISIONER, {"labels": {"kubernetes.io/team": "a"}}, "labels must not use keys"),
    (PROVISIONER, {"labels": {"karpenter.k8s.aws/team": "a"}}, "labels must not use keys"),
    (PROVISIONER, {"labels": {"team": "a b"}}, "values of labels have"),
    (
        PROVISIONER,
        {"requirements": [{"key": "karpenter.sh/team", "operator": "Exists"}]},
        "requirements must not use keys",
    ),
    (
        PROVISIONER,
        {"requirements": [{"key": "a b", "operator": "Exists"}]},
        "key must be a qualified name",
    ),
    (PROVISIONER, {"taints": [SEAT], "startupTaints": [SEAT]}, "must not repeat a pair"),
    (PROVISIONER, {"taints": [SEAT, SEAT]}, "must not repeat a pair"),
    (PROVISIONER, {"taints": [SEAT | {"value": "a b"}]}, "value a label value"),
    (MACHINE, {"startupTaints": [SEAT, SEAT]}, "must not repeat a pair"),
    (
        POOL,
        {"template": POOL_TEMPLATE | {"metadata": {"labels": {"team": "a b"}}}},
        "values of labels have",
    ),
    (CLASS, {"connectionTracking": {"udpStreamTimeout": "181s"}}, "from 60 to 180 seconds"),
    (CLASS, {"connectionTracking": {"tcpEstablishedTimeout": 59}}, "from 60 to 432000 seconds"),
    (PROVISIONER, {"limits": {"resources": {"cpu": "-5"}}}, "spec.limits.resources.cpu"),
    (PROVISIONER, {"limits": {"resources": {"cpu": -5}}}, "greater than or equal to 0"),
    (PROVISIONER, {"kubeletConfiguration": {"systemReserved": {"cpu": "-1"}}}, RESERVED),
    (PROVISIONER, {"kubeletConfiguration": {"kubeReserved": {"cpu": -1}}}, "kubeReserved.cpu"),
    (POOL, {"limits": {"cpu": "-5"}}, 'spec.limits.cpu: Invalid value: "-5"'),
    (POOL, {"limits": {"cpu": -5}}, "spec.limits.cpu: Invalid value: -5"),
    (CLAIM, {"resources": {"requests": {"cpu": "-5"}}}, "spec.resources.requests.cpu"),
    (
        PROVISIONER,
        {"requirements": [{"key": "a.kubernetes.io/b", "operator": "Exists"}]},
        "requirements must not use keys",
    ),
    (
        POOL,
        {
            "template": {
                "spec": {"requirements": [{"key": "a.karpenter.sh/b", "operator": "Exists"}]}
            }
        },
        "requirements must not use keys",
    ),
    (CLASS, {"tags": {"aws:team": "a"}}, "do not begin with aws:"),
    (TEMPLATE, {"tags": {"AWS:team": "a"}}, "do not begin with aws:"),
    (CLASS, {"kubelet": {"clusterDNS": ["10.0.0.10", "x"]}}, "clusterDNS must list IP addresses"),
    (
        PROVISIONER,
        {"kubeletConfiguration": {"clusterDNS": ["10.0.0.256"]}},
        "clusterDNS must list IP addresses",
    ),
    (TEMPLATE, {"tags": {"": "a"}}, "keys of tags have 1 to 128 characters"),
    (TEMPLATE, {"tags": {"k" * 129: "a"}}, "keys of tags have 1 to 128 characters"),
    (PROVISIONER, {"requirements": [ODD_VALUE]}, "spec.requirements[0].values[0]: Invalid value"),
    (OVERLAY, {"requirements": [ODD_VALUE]}, "spec.requirements[0].values[0]: Invalid value"),
    (TEMPLATE, volume("-20Gi"), "ebs.volumeSize: Invalid value"),
    (TEMPLATE, volume("20"), "ebs.volumeSize: Invalid value"),
    (TEMPLATE, volume(20), "ebs.volumeSize: Invalid value: 20"),
    (TEMPLATE, {"subnetSelector": {"team": ""}}, "entries of subnetSelector need a key and"),
    (TEMPLATE, {"subnetSelector": {"team": ",,"}}, "entries of subnetSelector need a key and"),
    (TEMPLATE, {"securityGroupSelector": {"": "a"}}, "entries of securityGroupSelector need a"),
    (TEMPLATE, {"amiSelector": {"aws::name": ""}}, "entries of amiSelector need a key and"),
]
"""(kind, fields of its spec to set or, where None, to leave out, words of the refusal)."""
