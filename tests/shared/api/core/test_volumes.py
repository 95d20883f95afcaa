"""Storage objects of the API server to records (POD-06, SCH-91..SCH-94): read or refused with a field."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given

from shared.api.core.volumes import parse_claim, parse_csi_node, parse_storage_class, parse_volume
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.records import CLAIMS, CSI_NODES, STORAGE_CLASSES, VOLUMES, decode_record
from shared.domain.workloads.volumes import IMMEDIATE
from shared.errors import InvalidObject
from tests.shared.api.conftest import META, document, json_values, objects

EBS = "ebs.csi.aws.com"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
WORDS = (
    "volumeName", "storageClassName", "phase", "csi", "driver", "awsElasticBlockStore", "local",
    "nodeAffinity", "required", "nodeSelectorTerms", "matchExpressions", "matchFields", "key",
    "operator", "values", "In", "Exists", "drivers", "name", "allocatable", "count", EBS_ZONE,
    "provisioner", "volumeBindingMode", "allowedTopologies", "matchLabelExpressions", keys.HOSTNAME,
)  # fmt: skip


def affinity(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}


def term(*expressions: tuple[str, str]) -> dict[str, Any]:
    written = [{"key": key, "operator": "In", "values": [value]} for key, value in expressions]
    return {"matchExpressions": written}


def zone(*values: str) -> Expression:
    return Expression(keys.ZONE, "In", values)


def test_a_bound_claim() -> None:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    spec = {"volumeName": "pv-1", "storageClassName": "gp3"}
    claim = parse_claim(document(spec, {"phase": "Bound"}, annotations=annotations))
    assert (claim.key, claim.uid, claim.phase) == ("default/one", "uid-1", "Bound")
    assert (claim.volume_name, claim.storage_class) == ("pv-1", "gp3")
    assert (claim.bound_completed, claim.terminating) == (True, False)


def test_a_claim_without_a_class_differs_from_one_that_wants_none() -> None:
    """POD-06: a default class may still come to the first."""
    assert parse_claim(document({})).storage_class is None
    assert parse_claim(document({"storageClassName": ""})).storage_class == ""


def test_the_old_annotation_names_the_class() -> None:
    old = {"volume.beta.kubernetes.io/storage-class": "gp2"}
    assert (
        parse_claim(document({"storageClassName": "gp3"}, annotations=old)).storage_class == "gp2"
    )


@pytest.mark.parametrize("parse", [parse_claim, parse_volume])
def test_a_deletion_is_seen(parse: Any) -> None:
    assert parse(document({}, deletionTimestamp="2026-01-01T00:00:00Z")).terminating


def test_sch_93_terms_of_a_volume_are_alternatives_in_today_s_spelling() -> None:
    """SCH-03: older keys."""
    terms = (term((EBS_ZONE, "a"), (keys.REGION, "r")), term((keys.ZONE, "b")))
    volume = parse_volume(document({"csi": {"driver": EBS}, **affinity(*terms)}))
    assert volume.driver == EBS
    assert volume.alternatives == ((zone("a"), Expression(keys.REGION, "In", ("r",))), (zone("b"),))


@pytest.mark.parametrize("source", ["local", "hostPath"])
def test_sch_94_the_host_of_a_local_volume_is_left_out(source: str) -> None:
    spec = affinity(term((keys.HOSTNAME, "n1"), (keys.ZONE, "a")), term((keys.HOSTNAME, "n2")))
    assert parse_volume(document({source: {"path": "/x"}, **spec})).alternatives == (
        (zone("a"),),
        (),
    )
    kept = parse_volume(document({"csi": {"driver": EBS}, **spec})).alternatives
    assert kept[1] == (Expression(keys.HOSTNAME, "In", ("n2",)),)


def test_labels_of_old_volumes_hold_in_every_alternative() -> None:
    labels = {"failure-domain.beta.kubernetes.io/zone": "a__b", "team": "x"}
    assert parse_volume(document({}, labels=labels)).alternatives == ((zone("a", "b"),),)
    both = parse_volume(document(affinity(term(("disk", "ssd"))), labels=labels)).alternatives
    assert both == ((Expression("disk", "In", ("ssd",)), zone("a", "b")),)


@pytest.mark.parametrize(
    ("source", "driver"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, EBS),
        ({"gcePersistentDisk": {"pdName": "x"}}, "pd.csi.storage.gke.io"),
        ({"azureDisk": {"diskName": "x"}}, "disk.csi.azure.com"),
        ({"nfs": {"server": "x"}}, ""),
    ],
)
def test_sch_92_in_tree_volumes_have_their_csi_driver(source: dict[str, Any], driver: str) -> None:
    assert parse_volume(document(source)).driver == driver


def storage_class(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": META, **fields}


def test_a_storage_class_says_where_it_makes_volumes() -> None:
    """SCH-92: in-tree volumes; SCH-93: zones of volumes."""
    terms = [
        {"matchLabelExpressions": [{"key": EBS_ZONE, "values": ["a", "b"]}]},
        {"matchLabelExpressions": [{"key": "rack", "values": ["r1"]}]},
        {},
    ]
    found = parse_storage_class(
        storage_class(
            provisioner="kubernetes.io/aws-ebs",
            volumeBindingMode="WaitForFirstConsumer",
            allowedTopologies=terms,
        )
    )
    assert (found.name, found.provisioner) == ("one", EBS)
    assert found.binding_mode == "WaitForFirstConsumer"
    assert found.allowed_topologies == ((zone("a", "b"),), (Expression("rack", "In", ("r1",)),))


def test_a_class_that_does_not_say_binds_at_once() -> None:
    found = parse_storage_class(storage_class(provisioner="example.com/x"))
    assert (found.provisioner, found.binding_mode) == ("example.com/x", IMMEDIATE)


def test_sch_91_a_driver_without_a_count_has_no_limit() -> None:
    drivers = [
        {"name": EBS, "nodeID": "i-1", "allocatable": {"count": 25}},
        {"name": "efs.csi.aws.com", "allocatable": None},
        {"name": "other", "allocatable": {}},
    ]
    node = parse_csi_node(document({"drivers": drivers}))
    assert (node.name, node.limits) == ("one", {EBS: 25})


@pytest.mark.parametrize(
    ("parse", "raw", "field"),
    [
        (parse_claim, document({"volumeName": 1}), "spec.volumeName"),
        (parse_claim, document({"storageClassName": []}), "spec.storageClassName"),
        (parse_claim, document({}, {"phase": 1}), "status.phase"),
        (parse_volume, document({"csi": "x"}), "spec.csi"),
        (
            parse_volume,
            document(affinity({"matchExpressions": [{"key": "k", "operator": "Near"}]})),
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator",
        ),
        (
            parse_volume,
            document(affinity({"matchFields": [{"key": "metadata.name"}]})),
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchFields",
        ),
        (parse_volume, document(affinity({})), "spec.nodeAffinity.required.nodeSelectorTerms"),
        (
            parse_storage_class,
            storage_class(allowedTopologies=[{"matchLabelExpressions": [{"key": "k"}]}]),
            "allowedTopologies[0].matchLabelExpressions[0]",
        ),
        (
            parse_csi_node,
            document({"drivers": [{"name": EBS, "allocatable": {"count": "x"}}]}),
            "spec.drivers[0].allocatable.count",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_field(
    parse: Any, raw: dict[str, Any], field: str
) -> None:
    """F27: faulty objects."""
    with pytest.raises(InvalidObject) as refused:
        parse(raw)
    assert refused.value.field == field


SPECS = {
    CLAIMS: parse_claim,
    VOLUMES: parse_volume,
    CSI_NODES: parse_csi_node,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(SPECS))
@given(objects(*WORDS), json_values(*WORDS))
def test_anything_is_read_or_refused(kind: str, spec: dict[str, Any], status: object) -> None:
    """F27: nothing but InvalidObject, and what is read survives the mirror."""
    with contextlib.suppress(InvalidObject):
        record = SPECS[kind](document(spec, status))
        assert decode_record(kind, msgspec.json.encode(record)) == record


@given(objects(*WORDS))
def test_any_storage_class_is_read_or_refused(fields: dict[str, Any]) -> None:
    """F27: faulty objects."""
    with contextlib.suppress(InvalidObject):
        record = parse_storage_class(storage_class(**fields))
        assert decode_record(STORAGE_CLASSES, msgspec.json.encode(record)) == record


terms = objects("matchExpressions", "matchFields").map(lambda one: affinity(one, one))


@given(terms)
def test_any_node_affinity_is_read_or_refused(spec: dict[str, Any]) -> None:
    with contextlib.suppress(InvalidObject):
        record = parse_volume(document(spec))
        assert decode_record(VOLUMES, msgspec.json.encode(record)) == record
