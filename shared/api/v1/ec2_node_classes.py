"""karpenter.k8s.aws/v1 EC2NodeClass <-> domain record (EC-01..EC-15, EC-22, MAP-04).

A v1alpha5 class may have settings without an equivalent in v1, such as a custom launch template. The document then
lacks them, and a note names the fix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from shared.api.class_statuses import with_status
from shared.api.conversion.class_upgrade import upgraded
from shared.api.conversion.written import Written
from shared.api.core.metadata import Metadata, name_faults, read_metadata
from shared.api.crd.model import ApiModel, read
from shared.api.faults import Parsed
from shared.api.hashes import class_hash
from shared.api.schema.kubelet import kubelet_settings
from shared.api.schema.selector_terms import alias_family
from shared.api.schema.v1.ec2_node_class import EC2NodeClass, EC2NodeClassSpec
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import NodeClass, SelectorTerm

Json = Mapping[str, Any]
Document = dict[str, Any]

SELECTOR_FIELDS = frozenset(
    {
        "subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms",
        "capacityReservationSelectorTerms", "placementGroupSelector",
    }
)  # fmt: skip
"""EC-22: not hashed, because drift compares what the selectors find."""
UNHASHED_FIELDS = SELECTOR_FIELDS | {"ipPrefixCount"}
"""DRF-04: a changed number of prefixes applies to new machines only."""
TERM_FIELDS = {
    "tags": "tags",
    "id": "id",
    "name": "name",
    "owner": "owner",
    "alias": "alias",
    "ssm_parameter": "ssmParameter",
}
RESERVATION_FIELDS = {
    "tags": "tags",
    "id": "id",
    "owner": "ownerID",
    "match_criteria": "instanceMatchCriteria",
}
"""Field of a record's term -> field of the API."""


def parse_ec2_node_class(raw: Json) -> Parsed[NodeClass]:
    """The class, or every fault of its spec. Never raises."""
    spec, faults = read(EC2NodeClassSpec, raw.get("spec"), at=("spec",))
    faults = [*faults, *name_faults(raw)]
    if spec is None or faults:
        return Parsed(None, tuple(faults))
    return Parsed(with_status(_record(read_metadata(raw), spec), raw.get("status")))


def ec2_node_class_object(node_class: NodeClass) -> Written:
    """The EC2NodeClass of a record of either generation (MAP-04), without status. Notes name what it lacks.

    The API server would refuse a document whose notes name fields of it.
    """
    current, notes = upgraded(node_class)
    spec = _spec(current)
    _, faults = read(EC2NodeClassSpec, spec, at=("spec",))
    noted = {note.path for note in notes}
    document = {
        "apiVersion": EC2NodeClass.INFO.api_version,
        "kind": EC2NodeClass.INFO.kind,
        "metadata": {"name": node_class.name},
        "spec": spec,
    }
    return Written(document, (*notes, *(fault for fault in faults if fault.path not in noted)))


def _record(meta: Metadata, spec: EC2NodeClassSpec) -> NodeClass:
    node_class = NodeClass(
        uid=meta.uid,
        name=meta.name,
        generation_api=V1,
        generation=meta.generation,
        terminating=meta.terminating,
        subnet_terms=_terms(spec.subnet_selector_terms),
        security_group_terms=_terms(spec.security_group_selector_terms),
        image_terms=_terms(spec.ami_selector_terms),
        reservation_terms=_terms(
            spec.capacity_reservation_selector_terms or (), RESERVATION_FIELDS
        ),
        placement_group=_written(spec.placement_group_selector),
        ami_family=spec.ami_family or alias_family(spec.ami_selector_terms[0].alias or ""),
        role=spec.role or "",
        instance_profile=spec.instance_profile or "",
        user_data=spec.user_data or "",
        context=spec.context or "",
        detailed_monitoring=bool(spec.detailed_monitoring),
        tags=dict(spec.tags or {}),
        metadata_options=_written(spec.metadata_options),
        block_device_mappings=tuple(_written(one) for one in spec.block_device_mappings or ()),
        kubelet=kubelet_settings(spec.kubelet),
        associate_public_ip=spec.associate_public_ip_address,
        ip_prefix_count=spec.ip_prefix_count,
        instance_store_policy=spec.instance_store_policy or "",
        network_interfaces=tuple(_written(one) for one in spec.network_interfaces or ()),
        connection_tracking=_written(spec.connection_tracking),
        cpu_options=_written(spec.cpu_options),
        enclave_options=_written(spec.enclave_options),
    )
    # The hash is of the spec as we write it, so that an equivalent notation is not drift.
    digest = class_hash(_spec(node_class), excluded=UNHASHED_FIELDS)
    return msgspec.structs.replace(node_class, hash=digest)


def _written(model: ApiModel | None) -> dict[str, Any]:
    """The fields that are set, by their API names."""
    return {} if model is None else model.model_dump(by_alias=True, exclude_none=True)


def _terms(
    written: Iterable[ApiModel], fields: Mapping[str, str] = TERM_FIELDS
) -> tuple[SelectorTerm, ...]:
    terms = (_written(term) for term in written)
    return tuple(
        SelectorTerm(**{field: term[name] for field, name in fields.items() if name in term})
        for term in terms
    )


def _spec(node_class: NodeClass) -> Document:
    """The spec of a v1 class, without empty fields."""
    optional = {
        "subnetSelectorTerms": _term_objects(node_class.subnet_terms),
        "securityGroupSelectorTerms": _term_objects(node_class.security_group_terms),
        "amiSelectorTerms": _term_objects(node_class.image_terms),
        "capacityReservationSelectorTerms": _term_objects(
            node_class.reservation_terms, RESERVATION_FIELDS
        ),
        "placementGroupSelector": dict(node_class.placement_group),
        "amiFamily": node_class.ami_family,
        "role": node_class.role,
        "instanceProfile": node_class.instance_profile,
        "userData": node_class.user_data,
        "context": node_class.context,
        "tags": dict(node_class.tags),
        "kubelet": dict(node_class.kubelet),
        "metadataOptions": dict(node_class.metadata_options),
        "blockDeviceMappings": [dict(one) for one in node_class.block_device_mappings],
        "instanceStorePolicy": node_class.instance_store_policy,
        "networkInterfaces": [dict(one) for one in node_class.network_interfaces],
        "connectionTracking": {k: f"{v}s" for k, v in node_class.connection_tracking.items()},
        "cpuOptions": dict(node_class.cpu_options),
        "enclaveOptions": dict(node_class.enclave_options),
    }
    spec: Document = {name: value for name, value in optional.items() if value}
    if node_class.detailed_monitoring:
        spec["detailedMonitoring"] = True
    if node_class.associate_public_ip is not None:
        spec["associatePublicIPAddress"] = node_class.associate_public_ip
    if node_class.ip_prefix_count is not None:
        spec["ipPrefixCount"] = node_class.ip_prefix_count
    return spec


def _term_objects(
    terms: Iterable[SelectorTerm], fields: Mapping[str, str] = TERM_FIELDS
) -> list[Document]:
    return [
        {
            name: _plain(getattr(term, field))
            for field, name in fields.items()
            if getattr(term, field)
        }
        for term in terms
    ]


def _plain(value: str | dict[str, str]) -> str | dict[str, str]:
    """A copy, because callers may change the document."""
    return dict(value) if isinstance(value, dict) else value
