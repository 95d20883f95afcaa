"""Add-ons by their EKS names, and the DaemonSets of each.

Requests are copied from the add-ons' own manifests: they reduce the free resources of every node, which a planner must
account for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.errors import ConfigurationError

ALL, NONE = "all", "none"


@dataclass(frozen=True)
class Daemon:
    """One DaemonSet. ``removes_taint``: key of the start-up taint that is removed from the node when its pod there is
    ready.
    """

    name: str
    requests: dict[str, str] = field(default_factory=dict)
    namespace: str = "kube-system"
    host_port: int | None = None
    removes_taint: str = ""


@dataclass(frozen=True)
class CsiDriver:
    """A CSIDriver object. ``attaches``: volumes are attached to the node before a pod starts there."""

    name: str
    attaches: bool


@dataclass(frozen=True)
class Addon:
    """The objects of one add-on."""

    daemons: tuple[Daemon, ...]
    driver: CsiDriver | None = None


CLOUDWATCH = "amazon-cloudwatch"
ADDONS = {
    "vpc-cni": Addon((Daemon("aws-node", {"cpu": "25m"}),)),
    "kube-proxy": Addon((Daemon("kube-proxy", {"cpu": "100m"}),)),
    "aws-ebs-csi-driver": Addon(
        (
            Daemon(
                "ebs-csi-node",
                {"cpu": "30m", "memory": "120Mi"},
                removes_taint="ebs.csi.aws.com/agent-not-ready",
            ),
        ),
        CsiDriver("ebs.csi.aws.com", attaches=True),
    ),
    "aws-efs-csi-driver": Addon(
        (Daemon("efs-csi-node", removes_taint="efs.csi.aws.com/agent-not-ready"),),
        CsiDriver("efs.csi.aws.com", attaches=False),
    ),
    "eks-pod-identity-agent": Addon((Daemon("eks-pod-identity-agent"),)),
    "amazon-cloudwatch-observability": Addon(
        (
            Daemon("cloudwatch-agent", {"cpu": "250m", "memory": "128Mi"}, CLOUDWATCH),
            Daemon("fluent-bit", {"cpu": "50m", "memory": "25Mi"}, CLOUDWATCH),
        )
    ),
    "prometheus-node-exporter": Addon(
        (Daemon("node-exporter", namespace="prometheus-node-exporter", host_port=9100),)
    ),
}
USUAL = "vpc-cni,kube-proxy"
"""The add-ons of a fresh cluster."""


def chosen(text: str) -> dict[str, Addon]:
    """The add-ons of a comma-separated list, or of ``all`` or ``none``. Raises ConfigurationError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == [ALL]:
        return dict(ADDONS)
    if names == [NONE]:
        return {}
    unknown = [name for name in names if name not in ADDONS]
    if unknown or not names:
        problem = f"no add-on is named {unknown[0]!r}" if unknown else "no add-on is named"
        raise ConfigurationError(
            f"add-ons: {problem}; there are {', '.join(ADDONS)}, and all or none"
        )
    return {name: ADDONS[name] for name in names}
