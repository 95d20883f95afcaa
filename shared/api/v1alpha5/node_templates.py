"""karpenter.k8s.aws/v1alpha1 AWSNodeTemplate <-> domain record (T-01..T-12, MAP-04).

A class with faults has no record, and its pools are not ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shared.api.class_statuses import with_status
from shared.api.conversion import selector_maps
from shared.api.conversion.written import Written
from shared.api.core.metadata import read_metadata
from shared.api.crd.model import UNKNOWN_FIELDS, ApiModel, read
from shared.api.faults import Fault, Parsed
from shared.api.hashes import class_hash
from shared.api.schema.selector_terms import alias_family
from shared.api.schema.v1alpha5.aws_node_template import (
    DEFAULT_FAMILY,
    AWSNodeTemplate,
    AWSNodeTemplateSpec,
)
from shared.domain.pools.generations import V1ALPHA5
from shared.domain.pools.nodepools import NodeClass, SelectorTerm

API_VERSION = AWSNodeTemplate.INFO.api_version
SELECTORS = ("subnetSelector", "securityGroupSelector", "amiSelector")
HOP_LIMIT, V1_HOP_LIMIT = "httpPutResponseHopLimit", 1
LATEST = "latest"
"""The version of an alias that is equivalent to a family without a selector."""
Json = Mapping[str, Any]


def parse_node_template(raw: Json) -> Parsed[NodeClass]:
    """The node class, or every fault of its spec. Never raises."""
    written = raw.get("spec")
    spec, faults = read(AWSNodeTemplateSpec, {} if written is None else written, at=("spec",))
    if spec is None:
        return Parsed(None, tuple(faults))
    return Parsed(with_status(_record(raw, spec), raw.get("status")))


def _record(raw: Json, spec: AWSNodeTemplateSpec) -> NodeClass:
    meta = read_metadata(raw)
    family = spec.ami_family or DEFAULT_FAMILY
    return NodeClass(
        uid=meta.uid,
        name=meta.name,
        generation_api=V1ALPHA5,
        generation=meta.generation,
        subnet_terms=selector_maps.terms_of_selector(spec.subnet_selector),
        security_group_terms=selector_maps.terms_of_selector(spec.security_group_selector),
        image_terms=selector_maps.terms_of_selector(spec.ami_selector),
        ami_family=family,
        instance_profile=spec.instance_profile or "",
        user_data=spec.user_data or "",
        context=spec.context or "",
        detailed_monitoring=bool(spec.detailed_monitoring),
        tags=dict(spec.tags),
        launch_template=spec.launch_template or "",
        metadata_options=_set_fields(spec.metadata_options) if spec.metadata_options else {},
        block_device_mappings=tuple(_set_fields(one) for one in spec.block_device_mappings),
        terminating=meta.terminating,
        hash=class_hash({**_set_fields(spec), "amiFamily": family}, excluded=SELECTORS),
    )


def _set_fields(model: ApiModel) -> dict[str, Any]:
    """The fields that the user set, without unknown fields."""
    return model.model_dump(by_alias=True, exclude_unset=True)


def node_template_object(node_class: NodeClass) -> Written:
    """The AWSNodeTemplate of a record of either generation, without status. Notes name what it lacks."""
    selectors, notes = _selectors(node_class)
    spec = {**selectors, **_settings(node_class)}
    known, refused = read(AWSNodeTemplateSpec, spec, at=("spec",), context=UNKNOWN_FIELDS)
    if known is None:
        known, _ = read(AWSNodeTemplateSpec, spec)
    document = {
        "apiVersion": API_VERSION,
        "kind": AWSNodeTemplate.INFO.kind,
        "metadata": {"name": node_class.name},
        "spec": spec if known is None else _set_fields(known),
    }
    return Written(document, (*notes, *refused, *_v1_notes(node_class)))


def _settings(node_class: NodeClass) -> dict[str, Any]:
    # A custom launch template excludes amiFamily, even with the default value (T-07).
    omitted = node_class.launch_template and node_class.ami_family == DEFAULT_FAMILY
    optional: dict[str, Any] = {
        "amiFamily": "" if omitted else node_class.ami_family,
        "instanceProfile": node_class.instance_profile,
        "userData": node_class.user_data,
        "context": node_class.context,
        "detailedMonitoring": node_class.detailed_monitoring,
        "tags": dict(node_class.tags),
        "launchTemplate": node_class.launch_template,
        "metadataOptions": _metadata_options(node_class),
        "blockDeviceMappings": [dict(one) for one in node_class.block_device_mappings],
    }
    return {name: value for name, value in optional.items() if value}


def _metadata_options(node_class: NodeClass) -> dict[str, object]:
    """The options, with v1's default hop limit made explicit, because that of v1alpha5 differs (MAP-04)."""
    default = {} if node_class.generation_api == V1ALPHA5 else {HOP_LIMIT: V1_HOP_LIMIT}
    return {**default, **node_class.metadata_options}


def _selectors(node_class: NodeClass) -> tuple[dict[str, dict[str, str]], list[Fault]]:
    """The three selectors, with notes about terms without an equivalent selector."""
    images = node_class.image_terms
    needed: tuple[tuple[str, tuple[SelectorTerm, ...], selector_maps.Selectable], ...] = (
        ("subnetSelector", node_class.subnet_terms, selector_maps.SUBNETS),
        ("securityGroupSelector", node_class.security_group_terms, selector_maps.SECURITY_GROUPS),
        ("amiSelector", () if _is_family_default(node_class) else images, selector_maps.IMAGES),
    )
    selectors: dict[str, dict[str, str]] = {}
    notes: list[Fault] = []
    if images and _is_family_default(node_class):
        notes.append(
            Fault(
                ("spec", "amiSelectorTerms"), "written as amiFamily, which selects the same images"
            )
        )
    for name, terms, kind in needed:
        selector = selector_maps.selector_of_terms(terms, kind)
        if selector is None:
            message = "no v1alpha1 selector is equivalent to these terms; left out"
            notes.append(Fault(("spec", f"{name}Terms"), message))
        elif selector:
            selectors[name] = selector
    return selectors, notes


def _is_family_default(node_class: NodeClass) -> bool:
    """Whether the terms select the newest image of the family, which is v1alpha1's default (MAP-04)."""
    if len(node_class.image_terms) != 1:
        return False
    term = node_class.image_terms[0]
    is_latest = term.alias.partition("@")[2] == LATEST
    return is_latest and alias_family(term.alias) == node_class.ami_family


def _v1_notes(node_class: NodeClass) -> Iterator[Fault]:
    """Notes about fields that only v1 has."""
    only_v1 = {
        "role": node_class.role,
        "capacityReservationSelectorTerms": node_class.reservation_terms,
        "placementGroupSelector": node_class.placement_group,
        "kubelet": node_class.kubelet,
        "associatePublicIPAddress": node_class.associate_public_ip,
        "ipPrefixCount": node_class.ip_prefix_count,
        "instanceStorePolicy": node_class.instance_store_policy,
        "networkInterfaces": node_class.network_interfaces,
        "connectionTracking": node_class.connection_tracking,
        "cpuOptions": node_class.cpu_options,
        "enclaveOptions": node_class.enclave_options,
    }
    fixes = {
        "role": "name an instanceProfile of this role instead",
        "kubelet": "write it in kubeletConfiguration of the Provisioner",
    }
    for name, value in only_v1.items():
        if value not in (None, "", (), {}):
            yield Fault(
                ("spec", name), f"v1alpha1 has no such field; {fixes.get(name, 'left out')}"
            )
