"""PersistentVolumeClaim, PersistentVolume, StorageClass and CSINode -> domain records.

The records hold only what determines the nodes for a pod with volumes: no sizes, parameters or secrets. An invalid
object is refused with its field. Pods that need it are then refused because it is missing; others are unaffected (F27).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.core.expressions import OPERATORS, parse_expressions
from shared.api.shapes import entries, mapping, text, text_list, texts, whole
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.workloads.volumes import (
    IMMEDIATE,
    Alternatives,
    CsiNode,
    StorageClass,
    Volume,
    VolumeClaim,
)
from shared.errors import InvalidObject

Json = Mapping[str, Any]
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
"""A legacy annotation that takes precedence over ``spec.storageClassName``."""

_SOURCES = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "vsphereVolume": "csi.vsphere.vmware.com",
    "portworxVolume": "pxd.portworx.com",
}
_PROVISIONERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""SCH-92: in-tree provisioner -> the CSI driver that replaces it."""

_PLACE_LABELS = (
    keys.ZONE,
    keys.REGION,
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_ON_ONE_NODE = ("local", "hostPath")


def parse_claim(raw: Json) -> VolumeClaim:
    """The record of a PersistentVolumeClaim. Raises InvalidObject naming the field."""
    meta = raw["metadata"]
    spec, status = mapping(raw.get("spec"), "spec"), mapping(raw.get("status"), "status")
    annotations = texts(meta.get("annotations"), "metadata.annotations")
    named = annotations.get(OLD_CLASS, spec.get("storageClassName"))
    return VolumeClaim(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        phase=text(status.get("phase"), "status.phase"),
        volume_name=text(spec.get("volumeName"), "spec.volumeName"),
        storage_class=None if named is None else text(named, "spec.storageClassName"),
        bound_completed=BIND_COMPLETED in annotations,
        terminating=bool(meta.get("deletionTimestamp")),
    )


def parse_volume(raw: Json) -> Volume:
    """The record of a PersistentVolume. Raises InvalidObject naming the field."""
    meta, spec = raw["metadata"], mapping(raw.get("spec"), "spec")
    return Volume(
        uid=meta["uid"],
        name=meta["name"],
        driver=_driver(spec),
        alternatives=_reached_from(spec, texts(meta.get("labels"), "metadata.labels")),
        terminating=bool(meta.get("deletionTimestamp")),
    )


def _driver(spec: Json) -> str:
    csi = mapping(spec.get("csi"), "spec.csi")
    if csi:
        return text(csi.get("driver"), "spec.csi.driver")
    return next((driver for source, driver in _SOURCES.items() if spec.get(source)), "")


def _reached_from(spec: Json, labels: Mapping[str, str]) -> Alternatives:
    """The volume's node affinity, with the topology labels of old volumes added to each alternative."""
    terms, topology = _node_affinity(spec), _topology_labels(labels)
    if not topology:
        return terms
    return tuple((*term, *topology) for term in terms or ((),))


def _node_affinity(spec: Json) -> Alternatives:
    field = "spec.nodeAffinity.required"
    affinity = mapping(spec.get("nodeAffinity"), "spec.nodeAffinity")
    required = mapping(affinity.get("required"), field)
    field = f"{field}.nodeSelectorTerms"
    terms = entries(required.get("nodeSelectorTerms"), field)
    found = [_term(term, f"{field}[{index}]") for index, term in enumerate(terms)]
    written = tuple(term for term in found if term)  # an empty term matches no node
    if found and not written:
        raise InvalidObject(
            "matches no node: every term is empty; add matchExpressions", field=field
        )
    if not any(spec.get(source) for source in _ON_ONE_NODE):
        return written
    return tuple(tuple(e for e in term if e.key != keys.HOSTNAME) for term in written)  # SCH-94


def _term(term: Json, field: str) -> tuple[Expression, ...]:
    if term.get("matchFields"):
        raise InvalidObject(
            "matchFields is not supported; use matchExpressions on the node's labels",
            field=f"{field}.matchFields",
        )
    field = f"{field}.matchExpressions"
    return parse_expressions(term.get("matchExpressions"), field=field, operators=OPERATORS)


def _topology_labels(labels: Mapping[str, str]) -> tuple[Expression, ...]:
    """Zone and region labels, several values joined by ``__``, as kube-scheduler reads them."""
    return tuple(
        Expression(keys.normalise(key), "In", tuple(labels[key].split("__")))
        for key in _PLACE_LABELS
        if labels.get(key)
    )


def parse_storage_class(raw: Json) -> StorageClass:
    """The record of a StorageClass, which has no ``spec``. Raises InvalidObject naming the field."""
    meta = raw["metadata"]
    provisioner = text(raw.get("provisioner"), "provisioner")
    topologies = entries(raw.get("allowedTopologies"), "allowedTopologies")
    found = [_topology(t, f"allowedTopologies[{index}]") for index, t in enumerate(topologies)]
    return StorageClass(
        uid=meta["uid"],
        name=meta["name"],
        provisioner=_PROVISIONERS.get(provisioner, provisioner),
        binding_mode=text(raw.get("volumeBindingMode"), "volumeBindingMode") or IMMEDIATE,
        allowed_topologies=tuple(topology for topology in found if topology),
    )


def _topology(raw: Json, field: str) -> tuple[Expression, ...]:
    """The expressions of one TopologySelectorTerm."""
    field = f"{field}.matchLabelExpressions"
    found = []
    for index, entry in enumerate(entries(raw.get("matchLabelExpressions"), field)):
        place = f"{field}[{index}]"
        key = text(entry.get("key"), f"{place}.key")
        values = text_list(entry.get("values"), f"{place}.values")
        if not key or not values:
            raise InvalidObject("needs a key and at least one value", field=place)
        found.append(Expression(keys.normalise(key), "In", values))
    return tuple(found)


def parse_csi_node(raw: Json) -> CsiNode:
    """The record of a CSINode. Raises InvalidObject naming the field."""
    meta, spec = raw["metadata"], mapping(raw.get("spec"), "spec")
    limits = {}
    for index, driver in enumerate(entries(spec.get("drivers"), "spec.drivers")):
        field = f"spec.drivers[{index}]"
        allocatable = mapping(driver.get("allocatable"), f"{field}.allocatable")
        count = whole(allocatable.get("count"), f"{field}.allocatable.count")
        if count is not None:
            limits[text(driver.get("name"), f"{field}.name")] = count
    return CsiNode(uid=meta["uid"], name=meta["name"], limits=limits)
