"""Keys that users, dashboards and other controllers match on: spelt as Karpenter spells them (KEY-01..08)."""

from __future__ import annotations

import pytest

from shared.api.core.nodes import parse_node
from shared.api.core.pods import parse_pod
from shared.api.label_rules import reserved_v1, reserved_v1alpha5
from shared.api.v1alpha5.machines import parse_machine
from shared.api.v1alpha5.node_templates import parse_node_template
from shared.domain import labels as keys
from shared.domain.nodes import DISRUPTED, EPHEMERAL_TAINTS, is_ephemeral
from shared.domain.pools.nodepools import SelectorTerm
from tests.shared.api.conftest import document

ARTEFACTS = {
    "karpenter.sh/managed-by": "bys-dev-eks-main",
    "karpenter/provisioner.name": "karpenter-default",
    "karpenter.sh/linked": "true",
    "karpenter.sh/voluntary-disruption": "drifted",
    "karpenter.sh/requested-dra-drivers": "gpu.example.com",
    "compatibility.karpenter.sh/provider": "{}",
}
"""What other versions of Karpenter have left on nodes and machines."""


def test_key_01_labels_that_name_owner_offering_and_progress() -> None:
    assert [
        keys.NODE_POOL,
        keys.PROVISIONER_NAME,
        keys.CAPACITY_TYPE,
        keys.INITIALIZED,
        keys.REGISTERED,
        keys.DO_NOT_SYNC_TAINTS,
    ] == [
        "karpenter.sh/nodepool",
        "karpenter.sh/provisioner-name",
        "karpenter.sh/capacity-type",
        "karpenter.sh/initialized",
        "karpenter.sh/registered",
        "karpenter.sh/do-not-sync-taints",
    ]


@pytest.mark.parametrize("name", ["", "another-machine"])
def test_key_01_the_old_label_machine_name_decides_nothing(name: str) -> None:
    """M-07: it was empty on nodes of v0.2x; the provider id joins node and machine."""
    said = {keys.PROVISIONER_NAME: "default", "karpenter.sh/machine-name": name}
    node = parse_node(document({"providerID": "aws:///us-west-2a/i-1"}, labels=said))
    assert (node.pool_key, node.provider_id) == ("Provisioner/default", "aws:///us-west-2a/i-1")


def test_key_02_capacity_types() -> None:
    assert (keys.ON_DEMAND, keys.SPOT, keys.RESERVED) == ("on-demand", "spot", "reserved")


def test_key_03_annotations_that_decide_or_carry_hashes() -> None:
    assert [
        keys.DO_NOT_DISRUPT,
        keys.DO_NOT_EVICT,
        keys.DO_NOT_CONSOLIDATE,
        keys.POOL_HASH,
        keys.POOL_HASH_VERSION,
        keys.PROVISIONER_HASH,
        keys.TERMINATION_TIMESTAMP,
        keys.MIN_VALUES_RELAXED,
        keys.MANAGED_BY,
    ] == [
        "karpenter.sh/do-not-disrupt",
        "karpenter.sh/do-not-evict",
        "karpenter.sh/do-not-consolidate",
        "karpenter.sh/nodepool-hash",
        "karpenter.sh/nodepool-hash-version",
        "karpenter.sh/provisioner-hash",
        "karpenter.sh/nodeclaim-termination-timestamp",
        "karpenter.sh/nodeclaim-min-values-relaxed",
        "karpenter.sh/managed-by",
    ]


@pytest.mark.parametrize("key", ["karpenter.sh/do-not-evict", "karpenter.sh/do-not-disrupt"])
def test_key_03_either_generations_word_keeps_a_pod_where_it_is(key: str) -> None:
    assert parse_pod(document(annotations={key: "true"})).do_not_disrupt == "true"


def test_key_03_nobody_but_us_says_since_when_a_node_is_empty() -> None:
    for reserved in (reserved_v1, reserved_v1alpha5):
        assert reserved("karpenter.sh/emptiness-timestamp")


def test_key_04_taints() -> None:
    assert DISRUPTED.text() == "karpenter.sh/disrupted:NoSchedule"
    unregistered = keys.UNREGISTERED_TAINT_KEY
    assert [t.text() for t in EPHEMERAL_TAINTS if t.key == unregistered] == [
        "karpenter.sh/unregistered:NoExecute"
    ]
    assert not is_ephemeral(DISRUPTED)


def test_key_06_load_balancers_leave_a_node_out_by_this_label() -> None:
    expected = "node.kubernetes.io/exclude-from-external-load-balancers"
    assert expected == keys.EXCLUDE_FROM_BALANCERS


def test_key_07_subnets_are_found_by_whatever_tag_the_class_names() -> None:
    """``karpenter.sh/discovery`` is what most write, and no more."""
    said = {"subnetSelector": {"Tier": "private"}, "securityGroupSelector": {"Name": "nodes"}}
    found = parse_node_template(document(said)).require("AWSNodeTemplate/one")
    assert found.subnet_terms == (SelectorTerm(tags={"Tier": "private"}),)


def test_key_08_what_older_versions_wrote_is_accepted_and_not_required() -> None:
    """Seed 002 shows a node with the first two."""
    node = parse_node(document(annotations=ARTEFACTS, labels={keys.PROVISIONER_NAME: "default"}))
    plain = parse_node(document(labels={keys.PROVISIONER_NAME: "default"}))
    assert (node.pool_key, node.taints) == (plain.pool_key, plain.taints)
    assert node.annotations[keys.MANAGED_BY] == "bys-dev-eks-main"
    machine = parse_machine(document({}, annotations=ARTEFACTS))
    assert machine.annotations == ARTEFACTS
