"""karpenter.k8s.aws/v1alpha1 AWSNodeTemplate -> NodeClass, strictly (T-01..T-12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.faults import Faults
from shared.domain.nodepools import NodeClass, SubnetRef

API_VERSION = "karpenter.k8s.aws/v1alpha1"
FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022", "Custom")
READY = "Ready"
_RESERVED_TAGS = (
    "karpenter.sh/provisioner-name",
    "kubernetes.io/cluster/",
    "karpenter.sh/managed-by",
)
_EXCLUDED_BY_TEMPLATE = (
    "securityGroupSelector", "metadataOptions", "amiFamily", "instanceProfile",
    "blockDeviceMappings", "userData", "amiSelector",
)  # fmt: skip
Json = Mapping[str, Any]


def parse_node_template(raw: Json) -> tuple[NodeClass, list[str]]:
    """The node class and every fault found. With faults the class must not be used."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    faults = Faults()
    _check(spec, faults)
    tags = _strings(spec, "tags", faults)
    for key in tags:
        if not key or key.startswith(_RESERVED_TAGS):
            faults.note(
                f"spec.tags[{key}]", "this tag is set by the autoscaler; choose another key"
            )
    ready: Json = next((c for c in status.get("conditions") or () if c.get("type") == READY), {})
    return NodeClass(
        uid=meta["uid"],
        name=meta["name"],
        generation=meta.get("generation") or 0,
        subnet_selector=_strings(spec, "subnetSelector", faults),
        security_group_selector=_strings(spec, "securityGroupSelector", faults),
        ami_selector=_strings(spec, "amiSelector", faults),
        ami_family=spec.get("amiFamily") or "AL2",
        instance_profile=spec.get("instanceProfile") or "",
        user_data=spec.get("userData") or "",
        context=spec.get("context") or "",
        detailed_monitoring=bool(spec.get("detailedMonitoring")),
        tags=tags,
        launch_template=spec.get("launchTemplate") or "",
        metadata_options=spec.get("metadataOptions") or {},
        block_device_mappings=tuple(spec.get("blockDeviceMappings") or ()),
        subnets=tuple(SubnetRef(s["id"], s["zone"]) for s in status.get("subnets") or ()),
        ready=ready.get("status") == "True",
        fault=ready.get("message") or "",
        terminating=bool(meta.get("deletionTimestamp")),
    ), faults.found


def _check(spec: Json, faults: Faults) -> None:
    if not spec.get("subnetSelector"):
        faults.note(
            "spec.subnetSelector", "select the subnets, for example by karpenter.sh/discovery"
        )
    if spec.get("launchTemplate"):
        for name in _EXCLUDED_BY_TEMPLATE:
            if spec.get(name):
                faults.note(f"spec.{name}", "cannot be combined with launchTemplate (T-07)")
    elif not spec.get("securityGroupSelector"):
        faults.note(
            "spec.securityGroupSelector",
            "select the security groups, for example by karpenter.sh/discovery",
        )
    family = spec.get("amiFamily") or "AL2"
    if family not in FAMILIES:
        faults.note(
            "spec.amiFamily", f"{str(family)[:40]!r} is unknown; use one of {', '.join(FAMILIES)}"
        )
    if family == "Custom" and not spec.get("amiSelector"):
        faults.note("spec.amiSelector", "amiFamily Custom needs an amiSelector (T-03)")


def _strings(spec: Json, name: str, faults: Faults) -> dict[str, str]:
    raw = spec.get(name) or {}
    if isinstance(raw, Mapping) and all(isinstance(v, str) for v in raw.values()):
        return {str(k): v for k, v in raw.items()}
    faults.note(f"spec.{name}", "must be a map of text to text")
    return {}
