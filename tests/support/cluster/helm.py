"""The chart as Helm renders it, and sets of values that differ in everything that changes its objects.

Without Helm its tests are skipped and say how to get it; ``.ci/run`` does.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.generate_manifests import REPOSITORY
from deploy.rendering import helm
from tests.support.texts.documents import documents

CHART = REPOSITORY / "deploy" / "chart"
CRDS = REPOSITORY / "deploy" / "chart-crds"
OUR_KINDS = {
    "{2}.{0}".format(*one.stem.partition("_")) for one in (CRDS / "templates").glob("*.yaml")
}
"""Names of the definitions that the chart of kinds installs: plural and group."""
NEEDS_HELM = pytest.mark.skipif(shutil.which("helm") is None, reason=helm.HOW)
Values = dict[str, Any]
ACCOUNT = "arn:aws:iam::123456789012:role/"
REQUIRED: Values = {
    "image": {"repository": "registry.example.com/dovetail"},
    "settings": {"CLUSTER_NAME": "blue", "AWS_REGION": "eu-central-1"},
}
TOLERATION = {"key": "system", "operator": "Exists", "effect": "NoSchedule"}
SECRET = {"secretKeyRef": {"name": "proxy", "key": "url"}}
MONITORING = ("podMonitor", "serviceMonitor", "rules", "dashboards")
MATRIX: dict[str, Values] = {
    "only what is required": {},
    "irsa": {
        "aws": {
            "credentials": "irsa",
            "roles": {name: ACCOUNT + name for name in ("launcher", "terminator", "interruption")},
        },
        "launcher": {"serviceAccount": {"annotations": {"eks.amazonaws.com/audience": "sts"}}},
    },
    "credentials of the environment": {"aws": {"credentials": "other"}},
    "a Redis of one's own": {
        "redis": {
            "bundled": {"enabled": False},
            "secretName": "my-redis",
            "tls": {"enabled": True, "secretName": "my-authority"},
            "external": {"ports": [6380, 26379], "cidrs": ["10.0.0.0/16", "fd00::/64"]},
        },
        "agents": {"enabled": True},
    },
    "a Redis whose users have IAM authentication": {
        "redis": {"bundled": {"enabled": False}, "secretName": "redis", "external": {"iam": True}}
    },
    "a Redis of one's own with a Secret per service": {"redis": {"bundled": {"enabled": False}}},
    "the bundled Redis with TLS on a volume": {
        "redis": {
            "tls": {"enabled": True},
            "bundled": {"persistence": {"enabled": True, "storageClassName": "gp3", "size": "4Gi"}},
        }
    },
    "a claim that exists": {
        "redis": {"bundled": {"persistence": {"enabled": True, "existingClaim": "mine"}}}
    },
    "agents": {
        "agents": {
            "enabled": True,
            "namespace": "agents",
            "createNamespace": False,
            "settings": {"IMDS_PERIOD": "5s"},
        },
        "networkPolicy": {"nodeCidrs": ["10.0.0.0/16"]},
    },
    "the kubectl plugin": {
        "kubectlPlugin": {"enabled": True, "group": "platform-team"},
        "networkPolicy": {"apiServerCidrs": ["10.0.0.0/24"], "collectorPorts": [4318]},
    },
    "admission policies": {"admissionPolicies": {"enabled": True, "action": "Warn"}},
    "everything for pods": {
        "image": {"digest": "sha256:" + 64 * "a", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "priorityClassName": "",
        "nodeSelector": {"role": "system"},
        "tolerations": [TOLERATION],
        "podAnnotations": {"team": "platform"},
        "podLabels": {"team": "platform"},
        "extraEnv": [{"name": "HTTPS_PROXY", "valueFrom": SECRET}],
        "scheduler": {
            "replicas": 3,
            "settings": {"PACKING_EFFORT": 300, "BATCH_MAX_DURATION": "20s"},
            "extraEnv": [{"name": "MALLOC_ARENA_MAX", "value": "1"}],
            "priorityClassName": "platform",
            "nodeSelector": {"disk": "fast"},
            "tolerations": [TOLERATION | {"key": "fast"}],
            "topologySpread": [
                {
                    "topologyKey": "zone",
                    "maxSkew": 1,
                    "minDomains": 2,
                    "whenUnsatisfiable": "DoNotSchedule",
                }
            ],
            "podAnnotations": {"of": "scheduler"},
            "podLabels": {"of": "scheduler"},
        },
        "launcher": {"replicas": 2, "settings": {"MAX_NODES": 1_000_000, "ISOLATED_VPC": True}},
    },
    "without console and policies": {
        "console": {"enabled": False},
        "networkPolicy": {"enabled": False},
    },
    "records in a bucket": {"records": {"store": "s3://records-of-blue/prod"}},
    "records on a claim": {"records": {"existingClaim": "records"}},
    "a shadow": {"shadow": {"enabled": True, "settings": {"PACKING_POLICY": "LowestCost"}}},
    "without records": {"records": {"store": ""}},
    "without console": {"console": {"enabled": False}},
    "a status ConfigMap": {"statusConfigMap": "kube-system/cluster-autoscaler-status"},
    "beside Karpenter": {"karpenter": {"lease": "kube-system/karpenter-leader-election"}},
    "monitoring": {
        "monitoring": {
            name: {"enabled": True, "labels": {"team": "platform"}} for name in MONITORING
        }
    },
    "as the plain manifests": {"releaseLabels": False, "createNamespace": True},
}


def with_required(values: Values) -> Values:
    """``values`` and what every release must say."""
    return {
        name: {**REQUIRED.get(name, {}), **values.get(name, {})}
        if name in REQUIRED
        else values[name]
        for name in (*REQUIRED, *(name for name in values if name not in REQUIRED))
    }


def rendered(
    values: Values, folder: Path, *, chart: Path = CHART, namespace: str = "platform"
) -> list[dict[str, Any]]:
    """The objects of a release with ``values`` and what is required. Raises ConfigurationError with Helm's words."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(with_required(values)))
    return [
        one for one in documents(helm.template(chart, values=[file], namespace=namespace)) if one
    ]
