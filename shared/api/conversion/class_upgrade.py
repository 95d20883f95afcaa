"""Conversion of v1alpha5 node classes to v1 (MAP-04).

The meaning is preserved where the defaults of v1 differ: the hop limit of the metadata service is written explicitly,
and a list of owners becomes one term per owner. Settings without an equivalent in v1 are left out, with a note that
names the fix.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from shared.api.conversion.selector_maps import alternatives
from shared.api.faults import Fault
from shared.api.schema.selector_terms import ALIAS_FAMILIES
from shared.api.schema.v1.ec2_node_class import VOLUME_SIZE_PATTERN, is_reserved_tag
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import NodeClass, SelectorTerm
from shared.domain.resources import parse_quantity
from shared.errors import InvalidObject

OLD_METADATA_DEFAULTS: dict[str, object] = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2,
    "httpTokens": "required",
}
"""T-08: the defaults of v1alpha5."""
DROPPED_FAMILY = "Ubuntu"


def upgraded(node_class: NodeClass) -> tuple[NodeClass, tuple[Fault, ...]]:
    """The class in v1, and notes about settings without an equivalent. A v1 class is returned unchanged."""
    if node_class.generation_api != V1ALPHA5:
        return node_class, ()
    changed = msgspec.structs.replace(
        node_class,
        generation_api=V1,
        ami_family="" if node_class.ami_family == DROPPED_FAMILY else node_class.ami_family,
        image_terms=tuple(_images(node_class)),
        launch_template="",
        tags={key: value for key, value in node_class.tags.items() if not is_reserved_tag(key)},
        metadata_options={**OLD_METADATA_DEFAULTS, **node_class.metadata_options},
        block_device_mappings=tuple(_volume(one) for one in node_class.block_device_mappings),
        kubelet={k: v for k, v in node_class.kubelet.items() if k != "containerRuntime"},
    )
    return changed, tuple(_notes(node_class, has_images=bool(changed.image_terms)))


def _notes(node_class: NodeClass, *, has_images: bool) -> Iterable[Fault]:
    family = node_class.ami_family
    if node_class.launch_template:
        yield Fault(
            ("spec", "launchTemplate"),
            "v1 does not support custom launch templates; write the template's image, security groups, volumes and "
            "user data here",
        )
    if family == DROPPED_FAMILY:
        yield dropped_family_note()
    if not has_images:
        yield Fault(
            ("spec", "amiSelectorTerms"),
            f"v1 has no default image for the family {family}; select an image by id, name or tags",
        )
    if not node_class.role and not node_class.instance_profile:
        yield Fault(
            ("spec", "role"),
            "v1 has no default instance profile; give --role or --instance-profile, or convert the ConfigMap "
            "karpenter-global-settings together with this object",
        )
    for key in filter(is_reserved_tag, node_class.tags):
        yield reserved_tag_note(key)
    if node_class.kubelet.get("containerRuntime") == "dockerd":
        yield Fault(("spec", "kubelet", "containerRuntime"), "v1 supports containerd only")


def dropped_family_note() -> Fault:
    """The note of a class whose image family v1 does not have."""
    text = (
        f"v1 has no family {DROPPED_FAMILY}; use Custom with complete userData, or another family"
    )
    return Fault(("spec", "amiFamily"), text)


def reserved_tag_note(key: str) -> Fault:
    """The note of a class with a tag that the autoscaler sets in v1."""
    return Fault(("spec", "tags", key), "v1 sets this tag itself; choose another key")


def _images(node_class: NodeClass) -> Iterable[SelectorTerm]:
    """One term per pair of name and owner, because a v1 term holds one of each; without terms the family's alias."""
    if not node_class.image_terms:
        alias = {family: alias for alias, family in ALIAS_FAMILIES.items()}.get(
            node_class.ami_family
        )
        if alias:
            yield SelectorTerm(alias=f"{alias}@latest")
        return
    for term in node_class.image_terms:
        pairs = itertools.product(alternatives(term.name), alternatives(term.owner))
        for name, owner in pairs:
            yield msgspec.structs.replace(term, name=name, owner=owner)


def _volume(mapping: Mapping[str, Any]) -> dict[str, object]:
    """The mapping with its volume size in a unit that v1 accepts: whole Gi, as volumes are launched (LCH-24)."""
    ebs = mapping.get("ebs")
    if not isinstance(ebs, Mapping) or ebs.get("volumeSize") is None:
        return dict(mapping)
    return {**mapping, "ebs": {**ebs, "volumeSize": _size(ebs["volumeSize"])}}


def _size(size: object) -> object:
    if isinstance(size, str) and re.fullmatch(VOLUME_SIZE_PATTERN, size):
        return size
    try:
        return f"{math.ceil(parse_quantity(size, field='') / 2**30)}Gi"
    except InvalidObject:
        return size  # invalid in v1 too; the v1 schema reports it
