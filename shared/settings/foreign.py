"""Settings of Karpenter without effect in Dovetail; the start logs a warning about each that is set.

docs/operating/settings.md explains them; a test compares both.
"""

from __future__ import annotations

from collections.abc import Mapping

_STATUS = "STATUS_HOST and STATUS_PORT: one server for metrics, health and readiness"
_LOGS = "logs are JSON lines on standard output"
_NO_WEBHOOK = "there is no admission webhook"
_EVERY_MINUTE = "images, subnets and security groups are looked up every minute"
INSTEAD: Mapping[str, str] = {
    "AMI_REFRESH_INTERVAL": _EVERY_MINUTE,
    "AWS_FEATURE_GATES": "expressions in kubelet settings are not evaluated",
    "CPU_REQUESTS": "worker pools have fixed bounds",
    "DISABLE_CLUSTER_STATE_OBSERVABILITY": "the metrics of the cluster's state are always there",
    "DISABLE_CONTROLLER_WARMUP": "there is nothing to warm up",
    "DISABLE_WEBHOOK": _NO_WEBHOOK,
    "EKS_CONTROL_PLANE": "the cluster is asked for unless CLUSTER_ENDPOINT is set",
    "ENABLE_PROFILING": "there are no profiles of a Go program",
    "HEALTH_PROBE_PORT": _STATUS,
    "LEADER_ELECT": "DISABLE_LEADER_ELECTION",
    "LOG_ERROR_OUTPUT_PATHS": _LOGS,
    "LOG_OUTPUT_PATHS": _LOGS,
    "LOGGING_CONFIG": _LOGS,
    "MEMORY_LIMIT": "set the container's limit",
    "METRICS_PORT": _STATUS,
    "SUBNET_REFRESH_INTERVAL": _EVERY_MINUTE,
    "WEBHOOK_METRICS_PORT": _NO_WEBHOOK,
    "WEBHOOK_PORT": _NO_WEBHOOK,
}
"""Name -> the replacement in Dovetail, or why there is none."""


def without_meaning(variables: Mapping[str, str]) -> dict[str, str]:
    """The names of such settings among ``variables``, with their replacement. Pure.

    Values with ``://`` are ignored: a Service ``metrics`` in the cluster sets METRICS_PORT to an address in every pod.
    """
    return {
        name: INSTEAD[name]
        for name in sorted(INSTEAD.keys() & variables.keys())
        if variables[name] and "://" not in variables[name]
    }
