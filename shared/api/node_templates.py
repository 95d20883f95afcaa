"""karpenter.k8s.aws/v1alpha1 AWSNodeTemplate -> NodeClass, strictly (T-01..T-12)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from shared.api.faults import Faults
from shared.api.machines import parse_conditions
from shared.api.shapes import entries, mapping, text, texts
from shared.domain.machines import Condition
from shared.domain.nodepools import NodeClass, SubnetRef
from shared.domain.resources import parse_quantity
from shared.errors import InvalidObject

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
    meta, faults = raw["metadata"], Faults()
    spec = _mapping(raw, "spec", "spec", faults)
    status = _mapping(raw, "status", "status", faults)
    _check(spec, faults)
    ready = faults.attempt(lambda: _ready(status), Condition("Unknown"))
    return NodeClass(
        uid=meta["uid"],
        name=meta["name"],
        generation=meta.get("generation") or 0,
        subnet_selector=_strings(spec, "subnetSelector", faults),
        security_group_selector=_strings(spec, "securityGroupSelector", faults),
        ami_selector=_strings(spec, "amiSelector", faults),
        ami_family=_text(spec, "amiFamily", faults) or "AL2",
        instance_profile=_text(spec, "instanceProfile", faults),
        user_data=_text(spec, "userData", faults),
        context=_text(spec, "context", faults),
        detailed_monitoring=bool(spec.get("detailedMonitoring")),
        tags=_tags(spec, faults),
        launch_template=_text(spec, "launchTemplate", faults),
        metadata_options=dict(_mapping(spec, "metadataOptions", "spec.metadataOptions", faults)),
        block_device_mappings=_volumes(spec, faults),
        subnets=faults.attempt(lambda: _subnets(status), ()),
        ready=ready.status == "True",
        fault=ready.message,
        terminating=bool(meta.get("deletionTimestamp")),
    ), faults.found


def _ready(status: Json) -> Condition:
    return parse_conditions(status.get("conditions")).get(READY) or Condition("Unknown")


def _subnets(status: Json) -> tuple[SubnetRef, ...]:
    listed = entries(status.get("subnets"), "status.subnets")
    return tuple(
        SubnetRef(
            text(s.get("id"), "status.subnets.id"), text(s.get("zone"), "status.subnets.zone")
        )
        for s in listed
    )


def _tags(spec: Json, faults: Faults) -> dict[str, str]:
    """T-11."""
    tags = _strings(spec, "tags", faults)
    for key in tags:
        if not key or key.startswith(_RESERVED_TAGS):
            faults.note(
                f"spec.tags[{key}]", "this tag is set by the autoscaler; choose another key"
            )
    return tags


def _volumes(spec: Json, faults: Faults) -> tuple[dict[str, object], ...]:
    """T-09. The size is read again when a launch template is made; here the user hears of it."""
    field, nothing = "spec.blockDeviceMappings", list[Json]()
    listed = faults.attempt(lambda: entries(spec.get("blockDeviceMappings"), field), nothing)
    for index, volume in enumerate(listed):
        faults.attempt(partial(_check_volume, volume, f"{field}[{index}]"), None)
    return tuple(dict(volume) for volume in listed)


def _check_volume(volume: Json, field: str) -> None:
    if not text(volume.get("deviceName"), f"{field}.deviceName"):
        raise InvalidObject("name the device, for example /dev/xvda", field=f"{field}.deviceName")
    ebs = mapping(volume.get("ebs"), f"{field}.ebs")
    size, snapshot = ebs.get("volumeSize"), ebs.get("snapshotID")
    if size is None and not snapshot:
        raise InvalidObject("needs volumeSize or snapshotID", field=f"{field}.ebs")
    if size is not None and parse_quantity(size, field=f"{field}.ebs.volumeSize") <= 0:
        raise InvalidObject("must be more than nothing", field=f"{field}.ebs.volumeSize")


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


def _mapping(raw: Json, name: str, field: str, faults: Faults) -> Json:
    nothing: Json = {}
    return faults.attempt(lambda: mapping(raw.get(name), field), nothing)


def _text(spec: Json, name: str, faults: Faults) -> str:
    return faults.attempt(lambda: text(spec.get(name), f"spec.{name}"), "")


def _strings(spec: Json, name: str, faults: Faults) -> dict[str, str]:
    return faults.attempt(lambda: texts(spec.get(name), f"spec.{name}"), {})
