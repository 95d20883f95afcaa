"""From one API generation to the other, after MAP-04; there and back is the same wherever nothing was noted."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.conversion.class_upgrade import OLD_METADATA_DEFAULTS
from shared.api.conversion.convert import convert
from shared.api.conversion.written import Written
from shared.api.faults import field_text
from shared.api.registry import check
from shared.api.v1alpha5.node_templates import parse_node_template
from shared.api.v1alpha5.provisioners import parse_provisioner
from shared.domain.pools.nodepools import NodeClass, NodePool

Document = dict[str, Any]
SETTLED = {"spec.ttlSecondsUntilExpired"}
"""A note on how v1 behaves (MAP-02), with which nothing is lost."""


def provisioner(name: str = "default", **spec: Any) -> Document:
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": name},
        "spec": {"providerRef": {"name": "default"}, **spec},
    }


def template(name: str = "default", **spec: Any) -> Document:
    return {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": name},
        "spec": {
            "subnetSelector": {"karpenter.sh/discovery": "one"},
            "securityGroupSelector": {"karpenter.sh/discovery": "one"},
            "instanceProfile": "nodes",
            **spec,
        },
    }


def node_pool(**spec: Any) -> Document:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": reference}}, **spec},
    }


def node_class(**spec: Any) -> Document:
    terms = [{"tags": {"karpenter.sh/discovery": "one"}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
            "amiSelectorTerms": [{"alias": "al2@latest"}],
            "instanceProfile": "nodes",
            **spec,
        },
    }


def fields_noted(written: Written) -> set[str]:
    return {field_text(note.path) for note in written.notes}


def only(document: Document, to: str = "v1") -> Written:
    (written,) = convert([document], to)
    return written


def test_a_provisioner_becomes_a_node_pool() -> None:
    """MAP-04: from v1alpha5 to v1."""
    pool = only(
        provisioner(
            labels={"team": "a"},
            annotations={"b": "c"},
            taints=[{"key": "d", "effect": "NoSchedule"}],
            limits={"resources": {"cpu": "10"}},
            weight=7,
            ttlSecondsUntilExpired=2592000,
            ttlSecondsAfterEmpty=60,
        )
    ).document
    spec = pool["spec"]
    assert (pool["apiVersion"], pool["kind"]) == ("karpenter.sh/v1", "NodePool")
    assert spec["template"]["metadata"] == {"labels": {"team": "a"}, "annotations": {"b": "c"}}
    assert spec["template"]["spec"]["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "default",
    }
    assert spec["template"]["spec"]["expireAfter"] == "2592000s"
    assert spec["template"]["spec"]["taints"][0]["key"] == "d"
    assert (spec["limits"], spec["weight"]) == ({"cpu": "10"}, 7)
    assert spec["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert spec["disruption"]["consolidateAfter"] == "60s"


@pytest.mark.parametrize(
    ("said", "policy", "after"),
    [
        ({"consolidation": {"enabled": True}}, "WhenEmptyOrUnderutilized", "0s"),
        ({"ttlSecondsAfterEmpty": 30}, "WhenEmpty", "30s"),
        ({}, "WhenEmpty", "Never"),
    ],
)
def test_consolidation_keeps_its_meaning(said: Document, policy: str, after: str) -> None:
    disruption = only(provisioner(**said)).document["spec"]["disruption"]
    assert (disruption["consolidationPolicy"], disruption["consolidateAfter"]) == (policy, after)


def test_defaults_of_the_webhook_become_explicit() -> None:
    """P-19: v1 has none."""
    written = only(provisioner()).document["spec"]["template"]["spec"]["requirements"]
    assert [(one["key"], one["operator"]) for one in written] == [
        ("kubernetes.io/os", "In"),
        ("kubernetes.io/arch", "In"),
        ("karpenter.sh/capacity-type", "In"),
        ("karpenter.k8s.aws/instance-category", "In"),
        ("karpenter.k8s.aws/instance-generation", "Gt"),
    ]


def test_expressions_of_a_class_are_left_out_of_a_provisioner_and_said() -> None:
    """EC-11: amounts by instance type are of v1 only."""
    kubelet = {"maxPods": "max_pods * 2", "kubeReserved": {"cpu": "vcpus * 30", "memory": "1Gi"}}
    documents = [only(provisioner()).document, node_class(kubelet=kubelet)]
    pool = next(
        one for one in convert(documents, "v1alpha5") if one.document["kind"] == "Provisioner"
    )
    assert pool.document["spec"]["kubeletConfiguration"] == {"kubeReserved": {"memory": "1Gi"}}
    said = [note.message for note in pool.notes if "expression" in note.message]
    assert len(said) == 2
    assert "maxPods" in said[0]
    assert said[1].endswith("left out: vcpus * 30")


KUBELET = {"containerRuntime": "containerd", "maxPods": 20}


def test_kubelet_settings_move_to_the_class_in_the_same_file() -> None:
    pool, made = convert([provisioner(kubeletConfiguration=KUBELET), template()], "v1")
    assert made.document["spec"]["kubelet"] == {"maxPods": 20}
    assert (pool.notes, made.notes) == ((), ())


def test_kubelet_settings_without_their_class_are_noted_with_where_they_belong() -> None:
    (note,) = only(provisioner(kubeletConfiguration=KUBELET)).notes
    assert "spec.kubelet of EC2NodeClass default, which is not in the input" in note.message
    assert '{"maxPods": 20}' in note.message


def test_pools_of_one_class_that_want_different_settings_are_noted() -> None:
    several = [
        provisioner("a", kubeletConfiguration=KUBELET),
        provisioner("b"),
        template(),
    ]
    first, second, made = convert(several, "v1")
    assert "kubelet" not in made.document["spec"]
    assert "create a separate class" in first.notes[0].message
    assert second.notes == ()


def test_kubelet_settings_move_back_to_every_pool() -> None:
    pool, made = convert([node_pool(), node_class(kubelet={"maxPods": 20})], "v1alpha5")
    assert pool.document["spec"]["kubeletConfiguration"] == {"maxPods": 20}
    assert "spec.kubelet" in fields_noted(made)


def test_settings_in_line_become_a_class_of_their_own() -> None:
    """T-13: provider in line."""
    inline = provisioner(
        provider={"subnetSelector": {"a": "b"}, "securityGroupSelector": {"c": "d"}}
    )
    del inline["spec"]["providerRef"]
    made, pool = convert([inline], "v1")
    reference = pool.document["spec"]["template"]["spec"]["nodeClassRef"]
    assert made.document["kind"] == "EC2NodeClass"
    assert made.document["metadata"] == {"name": reference["name"]}
    assert made.document["spec"]["subnetSelectorTerms"] == [{"tags": {"a": "b"}}]
    assert fields_noted(made) == {"spec.role"}


def test_a_launch_template_has_no_counterpart() -> None:
    own = template(launchTemplate="mine")
    del own["spec"]["securityGroupSelector"], own["spec"]["instanceProfile"]
    assert "spec.launchTemplate" in fields_noted(only(own))


@pytest.mark.parametrize(
    ("document", "to"),
    [
        ({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Machine"}, "v1"),
        ({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim"}, "v1alpha5"),
        ({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay"}, "v1alpha5"),
    ],
)
def test_what_cannot_be_converted_is_a_note_alone(document: Document, to: str) -> None:
    written = only({**document, "metadata": {"name": "a"}, "spec": {}}, to)
    assert written.document == {}
    assert f"{document['kind']}/a is not converted" in written.notes[0].message


def test_global_settings_become_environment_variables() -> None:
    """OPS-03: settings for AWS; OPS-04: the settings ConfigMap of v1alpha5."""
    written = only(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "karpenter-global-settings"},
            "data": {"aws.clusterName": "one", "batchIdleDuration": "2s"},
        }
    )
    assert written.document == {}
    assert [note.message for note in written.notes[1:]] == [
        "CLUSTER_NAME=one",
        "BATCH_IDLE_DURATION=2s",
    ]


@pytest.mark.parametrize("to", ["v1", "v1alpha5"])
def test_everything_else_stays_as_it_is(to: str) -> None:
    others: list[Document] = [
        {"kind": "Deployment", "spec": {"template": {}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "aws-auth"}},
        *([node_pool(), node_class()] if to == "v1" else [provisioner(), template()]),
    ]
    assert convert(others, to) == [Written(one, source=at) for at, one in enumerate(others)]


def test_labels_and_annotations_of_the_object_stay_but_hashes_go() -> None:
    document = provisioner()
    document["metadata"] |= {
        "labels": {"app": "x"},
        "annotations": {"owner": "me", "karpenter.sh/provisioner-hash": "1"},
        "uid": "1",
        "resourceVersion": "2",
    }
    assert only(document).document["metadata"] == {
        "name": "default",
        "labels": {"app": "x"},
        "annotations": {"owner": "me"},
    }


def test_an_object_that_is_there_in_both_generations_is_noted() -> None:
    """MAP-01: two of one name would overwrite each other."""
    converted, kept = convert([provisioner(), node_pool()], "v1")
    assert fields_noted(converted) == {"metadata.name"}
    assert kept.notes == ()


seconds = st.integers(0, 10**7)
words = st.text("abz019", min_size=1, max_size=5)
selectors = st.dictionaries(
    st.sampled_from(["team", "karpenter.sh/discovery"]), st.sampled_from(["a", "a,b", "*", "x*"]),
    min_size=1,
) | st.just({"aws-ids": "subnet-1,subnet-2"})  # fmt: skip
group_selectors = selectors.filter(lambda one: "aws-ids" not in one) | st.just(
    {"aws-ids": "sg-1,sg-2"}
)
requirements = st.lists(
    st.sampled_from(
        [
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64", "amd64"]},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["3"]},
            {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["a"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "Exists"},
            {"key": "example.com/gpu", "operator": "DoesNotExist"},
        ]
    ),
    max_size=4,
)
taints = st.lists(
    st.fixed_dictionaries(
        {"key": words, "effect": st.sampled_from(["NoSchedule", "NoExecute"])},
        optional={"value": words},
    ),
    max_size=2,
    unique_by=lambda one: (one["key"], one["effect"]),
)
kubelets = st.fixed_dictionaries(
    {},
    optional={
        "maxPods": st.integers(1, 200),
        "kubeReserved": st.just({"cpu": "100m", "memory": "1Gi"}),
        "containerRuntime": st.just("containerd"),
    },
)
lives: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"ttlSecondsAfterEmpty": seconds}),
    st.just({"consolidation": {"enabled": True}}),
)
provisioners = st.builds(
    lambda spec, life: provisioner(**spec, **life),
    st.fixed_dictionaries(
        {},
        optional={
            "labels": st.dictionaries(words, words, max_size=2),
            "annotations": st.dictionaries(words, words, max_size=2),
            "requirements": requirements,
            "taints": taints,
            "kubeletConfiguration": kubelets,
            "limits": st.just({"resources": {"cpu": "1000", "memory": "1000Gi"}}),
            "weight": st.integers(1, 100),
            "ttlSecondsUntilExpired": seconds,
        },
    ),
    lives,
)
templates = st.builds(
    lambda spec: template(**spec),
    st.fixed_dictionaries(
        {"subnetSelector": selectors, "securityGroupSelector": group_selectors},
        optional={
            "amiFamily": st.sampled_from(["AL2", "Bottlerocket", "Ubuntu", "Windows2022"]),
            "amiSelector": st.sampled_from(
                [{"aws-ids": "ami-1,ami-2"}, {"aws::name": "a*", "aws::owners": "self"}]
            ),
            "userData": words,
            "tags": st.dictionaries(words, words, max_size=2),
            "detailedMonitoring": st.booleans(),
            "metadataOptions": st.just({"httpTokens": "optional"}),
            "blockDeviceMappings": st.just(
                [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "30Gi", "encrypted": True}}]
            ),
            "context": words,
        },
    ),
)


def same_pool(pool: NodePool) -> NodePool:
    kubelet = {key: value for key, value in pool.kubelet.items() if key != "containerRuntime"}
    return msgspec.structs.replace(pool, hash="", kubelet=kubelet)


def same_class(node_class: NodeClass) -> NodeClass:
    """Terms are alternatives, so their order means nothing; the old defaults were written out."""
    return msgspec.structs.replace(
        node_class,
        hash="",
        subnet_terms=tuple(sorted(node_class.subnet_terms, key=repr)),
        security_group_terms=tuple(sorted(node_class.security_group_terms, key=repr)),
        image_terms=tuple(sorted(node_class.image_terms, key=repr)),
        metadata_options={**OLD_METADATA_DEFAULTS, **node_class.metadata_options},
    )


@given(provisioners, templates)
def test_there_and_back_is_the_same_wherever_nothing_was_noted(
    old_pool: Document, old_class: Document
) -> None:
    assert check(old_pool) + check(old_class) == []
    pool, made = convert([old_pool, old_class], "v1")
    if not fields_noted(pool) - SETTLED:
        assert check(pool.document) == []
    if not made.notes:
        assert check(made.document) == []
    if (fields_noted(pool) | fields_noted(made)) - SETTLED:
        return
    again_pool, again_class = convert([pool.document, made.document], "v1alpha5")
    assert same_pool(parse_provisioner(again_pool.document).require("pool")) == same_pool(
        parse_provisioner(old_pool).require("pool")
    )
    assert same_class(parse_node_template(again_class.document).require("class")) == same_class(
        parse_node_template(old_class).require("class")
    )
