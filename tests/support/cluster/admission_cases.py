"""Writes that the admission policies accept or refuse, for the embedded API server and for a real one."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from local.cluster.api.patches import merge_patch
from shared.domain import labels as keys
from tests.support.cluster.others import others_claim, others_pool
from tests.support.cluster.our_kinds import CLAIM, CLASS, POOL, PROVISIONER, Kind

Document = dict[str, Any]
OWN_CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"}


class Case(NamedTuple):
    """One write. ``refusal``: words of the answer; empty: it is accepted. ``before``: what exists already."""

    what: str
    write: Document
    refusal: str = ""
    before: tuple[Document, ...] = ()


def _object(kind: Kind, name: str, change: Document | None = None) -> Document:
    return dict(merge_patch(copy.deepcopy(kind.object(name)), change or {}))


def _pool(annotations: Document | None = None, **spec: Any) -> Document:
    return _object(POOL, "blue", {"metadata": {"annotations": annotations or {}}, "spec": spec})


def _labelled(labels: Document) -> Document:
    return {"template": {"metadata": {"labels": labels}}}


def _provisioner(
    annotations: Document | None = None,
    name: str = "blue",
    annotations_of_nodes: Document | None = None,
    **spec: Any,
) -> Document:
    if annotations_of_nodes is not None:
        spec["annotations"] = annotations_of_nodes
    change = {"metadata": {"annotations": annotations or {}}, "spec": spec}
    return _object(PROVISIONER, name, change)


def _asks(key: str, *values: str) -> Document:
    """A template of a pool with one requirement."""
    found = [{"key": key, "operator": "In", "values": list(values)}]
    return {"template": {"spec": {"requirements": found}}}


def _class(alias: str = "al2023@latest", **spec: Any) -> Document:
    return _object(CLASS, "blue", {"spec": {"amiSelectorTerms": [{"alias": alias}], **spec}})


def _claim(pool: str) -> Document:
    return _object(CLAIM, "blue-1", {"metadata": {"labels": {keys.NODE_POOL: pool}}})


RESERVED = _asks(keys.CAPACITY_TYPE, keys.RESERVED)
ANNOTATIONS = (
    Case(
        "every setting",
        _pool(
            {
                keys.PACKING_ANNOTATION: "LowestCost",
                keys.NODE_PRICE_ANNOTATION: "0.02",
                keys.APPROVAL_ANNOTATION: "Drifted, Underutilized",
                keys.MAINTENANCE_LEAD_ANNOTATION: "24h",
                keys.UTILIZATION_ANNOTATION: "50%",
                keys.DELAY_AFTER_ADD_ANNOTATION: "10m",
                keys.DELAY_AFTER_DELETE_ANNOTATION: "0",
                keys.DELAY_AFTER_FAILURE_ANNOTATION: "3m30s",
                keys.MINIMUM_ANNOTATION: "- nodes: 3\n  schedule: '0 8 * * 1-5'\n  duration: 10h",
                keys.HEADROOM_ANNOTATION: "20%",
                keys.HOURS_ANNOTATION: "{schedule: '0 8 * * *', duration: 10h}",
                keys.OUTSIDE_HOURS_ANNOTATION: "drain",
            }
        ),
    ),
    Case("an annotation of somebody else", _pool({"example.com/minimum": "x"})),
    Case("a misspelled name", _pool({"dovetail.sh/minimun": "nodes: 3"}), "dovetail.sh/minimun"),
    Case("an unknown policy", _pool({keys.PACKING_ANNOTATION: "Cheapest"}), "one of FewestNodes"),
    Case("a negative price", _pool({keys.NODE_PRICE_ANNOTATION: "-0.02"}), "a price in US dollars"),
    Case("a negative minimum", _pool({keys.MINIMUM_ANNOTATION: "nodes: -3"}), "negative amounts"),
    Case("too long a lead", _pool({keys.MAINTENANCE_LEAD_ANNOTATION: "721h"}), "at most 720h"),
    Case("a share above all", _pool({keys.UTILIZATION_ANNOTATION: "150%"}), "a percentage"),
    Case("a switch", _provisioner({keys.DISRUPTION_ANNOTATION: "halt"}), "one of on, off"),
    Case("empty counts as absent", _provisioner({keys.DISRUPTION_ANNOTATION: ""})),
)
SETTINGS = (
    Case(
        "as much as the limit",
        _pool({keys.MINIMUM_ANNOTATION: "{nodes: 3, cpu: 4000m}"}, limits={"nodes": 3, "cpu": 4}),
    ),
    Case(
        "a comment keeps nothing",
        _pool({keys.MINIMUM_ANNOTATION: "# nodes: 9 in winter\nnodes: 2"}, limits={"nodes": 3}),
    ),
    Case(
        "more nodes than the limit",
        _pool({keys.MINIMUM_ANNOTATION: "nodes: 4"}, limits={"nodes": 3}),
        "more nodes than the pool's limit",
    ),
    Case(
        "more memory than the limit",
        _pool({keys.HEADROOM_ANNOTATION: '{"memory": "9Gi"}'}, limits={"memory": "8Gi"}),
        "more memory than the pool's limit",
    ),
    Case(
        "a Provisioner's limit",
        _provisioner({keys.MINIMUM_ANNOTATION: "cpu: 40"}, limits={"resources": {"cpu": "39"}}),
        "more cpu than the pool's limit",
    ),
    Case(
        "a static pool with headroom",
        _pool({keys.HEADROOM_ANNOTATION: "20%"}, replicas=2, weight=None),
        "a pool with spec.replicas",
    ),
    Case(
        "outside hours that do not exist",
        _pool({keys.OUTSIDE_HOURS_ANNOTATION: "drain"}),
        "no effect without dovetail.sh/hours",
    ),
    Case(
        "a limit lowered below the minimum",
        _pool({keys.MINIMUM_ANNOTATION: "nodes: 4"}, limits={"nodes": 3}),
        "more nodes than the pool's limit",
        before=(_pool({keys.MINIMUM_ANNOTATION: "nodes: 4"}, limits={"nodes": 4}),),
    ),
)
KEYS = (
    Case("keys of one's own", _pool(**_labelled({"team": "a", "example.com/team": "b"}))),
    Case("Kubernetes' keys in v1", _pool(**_labelled({"a.k8s.io/team": "a", keys.ZONE: "b"}))),
    Case(
        "a subdomain of Karpenter",
        _pool(**_labelled({"a.karpenter.sh/b": "c"})),
        "a.karpenter.sh/b",
    ),
    Case("no qualified name", _pool(**_labelled({"no name": "c"})), "qualified names such as"),
    Case(
        "an annotation without a qualified name",
        _pool(template={"metadata": {"annotations": {"no name": "c", "UPPER.com/a": "b"}}}),
        "annotations of the machines must have qualified names such as example.com/team: no name",
    ),
    Case("a subdomain of Kubernetes", _provisioner(labels={"a.k8s.io/b": "c"}), ": a.k8s.io/b"),
    Case("an exception", _provisioner(labels={"x.node.kubernetes.io/b": "c"})),
    Case("an old name", _provisioner(labels={"beta.kubernetes.io/arch": "amd64"})),
    Case("an annotation", _provisioner(annotations_of_nodes={"no name": "c"}), ": no name"),
)
TOGETHER = (
    Case("a class of another provider", _pool(template={"spec": {"nodeClassRef": {
        "group": "karpenter.azure.com", "kind": "AKSNodeClass"}}}), "must name an EC2NodeClass"),
    Case("a machine with a class of another kind", _object(CLAIM, "blue-1", {"spec": {
        "nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass"}}}), "must name an EC2NodeClass"),
    Case("a pool of EKS Auto Mode", merge_patch(_pool(**_labelled({"a.k8s.io/b": "c"})), others_pool("theirs"))),
    Case("a machine of EKS Auto Mode", merge_patch(CLAIM.object("theirs"), others_claim("theirs"))),
    Case("Linux on Linux", _pool(**_asks(keys.OS, "linux")), before=(_class(),)),
    Case(
        "Windows on Linux images",
        _pool(**_asks(keys.OS, "windows")),
        "the class has Linux images",
        before=(_class(),),
    ),
    Case(
        "Linux on Windows images",
        _pool(**_asks(keys.OS, "linux")),
        "the class has Windows images",
        before=(_class("windows2022@latest"),),
    ),
    Case(
        "Windows on arm64",
        _pool(**_asks(keys.ARCH, "arm64")),
        "Windows images exist for amd64 only",
        before=(_class("windows2022@latest"),),
    ),
    Case(
        "another class does not matter",
        _pool(template={"spec": {"nodeClassRef": {**OWN_CLASS, "name": "green"}}}),
        before=(_class("windows2022@latest"),),
    ),
    Case("reserved without reservations", _pool(**RESERVED), "no capacity reservation",
         before=(_class(),)),
    Case(
        "reserved with reservations",
        _pool(**RESERVED),
        before=(_class(capacityReservationSelectorTerms=[{"tags": {"team": "a"}}]),),
    ),
    Case(
        "a class that fits its pool no more",
        _class("windows2022@latest"),
        "NodePool blue, EC2NodeClass blue: the class has Windows images",
        before=(_class(), _pool(**_asks(keys.OS, "linux"))),
    ),
    Case("the name of a Provisioner", _pool(), "a Provisioner has this name already",
         before=(_provisioner(),)),
    Case("the name of a NodePool", _provisioner(), "a NodePool has this name already",
         before=(_pool(),)),
    Case("other names", _provisioner(name="green"), before=(_pool(),)),
    Case("a machine of another pool", _claim("other"), "cannot change", before=(_claim("blue"),)),
    Case("a machine of the same pool", _claim("blue"), before=(_claim("blue"),)),
)  # fmt: skip
CASES = (*ANNOTATIONS, *SETTINGS, *KEYS, *TOGETHER)
