"""Checking objects as they come from files: everything wrong at once, in words that mend it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.parsers import INSTANCE_TYPE, PARSERS, SCHEMAS, parser_of, schema_of
from shared.api.registry import check, is_ours, title_of, warnings
from shared.api.schema import catalogue
from tests.shared.api.conftest import json_values, objects

PROVISIONER = "karpenter.sh/v1alpha5"


def provisioner(name: Any = "default", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": PROVISIONER,
        "kind": "Provisioner",
        "metadata": {"name": name},
        "spec": {"providerRef": {"name": "default"}, **spec},
    }


OVERLAY = {
    "apiVersion": "karpenter.sh/v1alpha1",
    "kind": "NodeOverlay",
    "spec": {"requirements": [], "price": "1"},
}


def told(document: dict[str, Any]) -> list[str]:
    return [str(fault) for fault in check(document)]


def test_an_object_without_faults_passes() -> None:
    assert check(provisioner()) == []


def test_structure_rules_unknown_fields_and_name_are_judged_at_once() -> None:
    faulty = provisioner(
        "Default_1", weight=101, wieght=3, ttlSecondsAfterEmpty=1, consolidation={"enabled": True}
    )
    lines = told(faulty)
    assert [line.split(":")[0] for line in lines] == [
        "metadata.name",
        "spec.consolidation",
        "spec.weight",
        "spec.wieght",
    ]
    assert "did you mean weight?" in lines[3]


def test_lines_that_lost_their_indentation_are_told_where_they_belong() -> None:
    term = {"tags": None, "karpenter.sh/discovery": "a", "Name": "b"}
    spec = {
        "role": "a",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [term],
        "securityGroupSelectorTerms": [{"id": "sg-1", "tag": "a"}],
    }
    at = "spec.subnetSelectorTerms[0]"
    assert told(of_v1("karpenter.k8s.aws", "EC2NodeClass", spec)) == [
        "spec.securityGroupSelectorTerms[0].tag: unknown field; did you mean tags?",
        f"{at}.Name: unknown field; indent it below tags",
        f"{at}: selects everything; write at least one of tags, id",
        f"{at}[karpenter.sh/discovery]: unknown field; indent it below tags",
    ]


@pytest.mark.parametrize("name", ["a", "a.b-c", "0", "x" * 253])
def test_a_dns_subdomain_is_a_name(name: str) -> None:
    """Pools and node classes have shorter ones."""
    assert check({**OVERLAY, "metadata": {"name": name}}) == []


@pytest.mark.parametrize(
    "name", ["", "A", "a_b", "-a", "a.", "a..b", "x" * 254, "a\n", 5, True, ["a"], "\u202ea"]
)
def test_anything_else_is_no_name(name: Any) -> None:
    assert any(line.startswith("metadata.name: ") for line in told(provisioner(name)))


def test_an_object_without_a_name_is_refused_unless_one_is_generated() -> None:
    assert "metadata.name: is required" in told({**provisioner(), "metadata": {}})[0]
    assert check({**provisioner(), "metadata": {"generateName": "a-"}}) == []


def test_labels_of_the_object_must_be_text() -> None:
    document = {**provisioner(), "metadata": {"name": "a", "labels": {"x": True}}}
    assert told(document) == ["metadata.labels.x: must be a string; put it in quotes"]


def test_what_a_file_says_of_status_is_not_judged() -> None:
    assert check({**provisioner(), "status": {"resources": 5, "nonsense": []}}) == []


def test_an_older_version_is_told_which_one_to_write() -> None:
    document = {
        "apiVersion": "karpenter.sh/v1alpha4",
        "kind": "NodePool",
        "metadata": {"name": "a"},
    }
    assert is_ours(document)
    assert told(document) == [
        "apiVersion: NodePool is not supported in karpenter.sh/v1alpha4; use karpenter.sh/v1"
    ]


@pytest.mark.parametrize(
    ("version", "fault"),
    [
        (None, "is required; use karpenter.sh/v1"),
        ("", "is required; use karpenter.sh/v1"),
        ("karpentr.sh/v1", "NodePool is not supported in karpentr.sh/v1; use karpenter.sh/v1"),
        ("karpenter.sh.v1", "NodePool is not supported in karpenter.sh.v1; use karpenter.sh/v1"),
    ],
)
def test_a_pool_without_its_group_is_not_ignored(version: str | None, fault: str) -> None:
    document = {"apiVersion": version, "kind": "NodePool", "metadata": {"name": "a"}}
    assert is_ours(document)
    assert told(document) == [f"apiVersion: {fault}"]
    for other in ("hypershift.openshift.io/v1beta1", "karpenter.ibm.sh/v1", "v1"):
        assert not is_ours({**document, "apiVersion": other})


def test_a_misspelt_kind_is_told_its_name() -> None:
    document = {"apiVersion": PROVISIONER, "kind": "Provisoner"}
    assert told(document) == [
        "kind: Provisoner is not a kind of karpenter.sh/v1alpha5; did you mean Provisioner?"
    ]


def test_each_incomplete_taint_is_told_to_be_one_item() -> None:
    """ACC-11: a taint split over list items."""
    spread = provisioner(taints=[{"key": "a/b"}, {"value": "true"}, {"effect": "NoSchedule"}])
    lines = told(spread)
    for index in range(3):
        assert any(f"spec.taints[{index}]: a taint needs key" in line for line in lines)


def test_an_empty_spec_is_one_fault_not_one_for_every_line() -> None:
    flat = {**provisioner(), "spec": None, "weight": 5, "limits": None}
    assert told(flat) == ["spec: is empty; indent the lines that belong to it"]


def test_the_global_settings_are_checked_and_other_config_maps_are_not_ours() -> None:
    """OPS-04: the settings ConfigMap of v1alpha5."""
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "karpenter-global-settings"},
        "data": {"batchMaxDuration": "soon", "aws.clusterName": "one"},
    }
    assert [line.split(":")[0] for line in told(document)] == ["data.batchMaxDuration"]
    assert not is_ours({**document, "metadata": {"name": "aws-auth"}})


def test_defaults_that_will_be_applied_are_told() -> None:
    """P-19, each only where nothing is said."""
    labelled = provisioner(
        labels={"kubernetes.io/arch": "arm64"},
        requirements=[{"key": "beta.kubernetes.io/instance-type", "operator": "Exists"}],
    )
    lines = [str(warning) for warning in warnings(labelled)]
    assert lines == [
        "spec.requirements: these defaults apply: kubernetes.io/os In [linux], "
        "karpenter.sh/capacity-type In [on-demand]"
    ]


def test_values_that_no_offering_has_are_told() -> None:
    """NP-18: known values."""
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "a"},
        "spec": {
            "template": {
                "spec": {
                    "requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["sopt"]}
                    ],
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": "a",
                    },
                }
            }
        },
    }
    assert check(pool) == []
    assert ["sopt" in str(warning) for warning in warnings(pool)] == [True]


@pytest.mark.parametrize(
    ("age", "warned"), [("0s", True), ("59s", True), ("1m", False), ("Never", False)]
)
def test_an_age_that_no_node_reaches_is_told(age: str, warned: bool) -> None:
    """Machines would follow one another without end."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"}
    template = {"requirements": [], "nodeClassRef": reference, "expireAfter": age}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "a"},
        "spec": {"template": {"spec": template}},
    }
    assert check(pool) == []
    found = [str(one) for one in warnings(pool) if "without end" in str(one)]
    assert [one.startswith("spec.template.spec.expireAfter: ") for one in found] == [True] * warned


def test_a_placeholder_is_told_but_not_inside_of_user_data() -> None:
    template = {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "a"},
        "spec": {
            "subnetSelector": {"a": "${CLUSTER_NAME}"},
            "securityGroupSelector": {"a": "b"},
            "userData": "echo ${HOME}",
        },
    }
    assert [warning.path for warning in warnings(template)] == [("spec", "subnetSelector", "a")]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("nodes-${module.eks.cluster_name}", "${module.eks.cluster_name}"),
        ("${CLUSTER_FQDN//./-}", "${CLUSTER_FQDN//./-}"),
        ("$CLUSTER_NAME", "$CLUSTER_NAME"),
        ("$(terraform output -raw name)", "$(terraform output -raw name)"),
        ("<<CLUSTER_NAME>>", "<<CLUSTER_NAME>>"),
        ("nodes-<your-cluster-name>", "<your-cluster-name>"),
        ("{{ .Values.clusterName }}", "{{ .Values.clusterName }}"),
        ("costs 5$ a day", ""),
        ("Jane <jane@example.com>", ""),
        ("a < b > c", ""),
    ],
)
def test_every_form_of_a_placeholder_is_told(text: str, seen: str) -> None:
    """As shells, Terraform, Helm and readers of a guide would replace them; also in a key."""
    selectors = {"subnetSelector": {"a": text}, "securityGroupSelector": {f"c/{text}": "owned"}}
    template = {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "a"},
        "spec": selectors,
    }
    found = warnings(template)
    assert [one.path for one in found] == (
        [("spec", "securityGroupSelector", f"c/{text}"), ("spec", "subnetSelector", "a")]
        if seen
        else []
    )
    assert all(one.message.startswith(f"{seen} is a placeholder; replace it") for one in found)


def test_the_fault_of_a_placeholder_says_that_it_is_one() -> None:
    """Its form is wrong because nobody replaced it."""
    [name] = told({**OVERLAY, "metadata": {"name": "<NAME>"}})
    assert name.endswith("at both ends; <NAME> is a placeholder; replace it")
    assert told(provisioner(limits={"resources": {"cpu": "${var.cpu}"}}, wieght="$WEIGHT")) == [
        "spec.limits.resources.cpu: '${var.cpu}' is not a quantity; write for example 500m, 2 or 1.5Gi; "
        "${var.cpu} is a placeholder; replace it",
        "spec.wieght: unknown field; did you mean weight?",
    ]


@pytest.mark.parametrize("document", [None, [], "text", 5, {}, {"kind": "Pod"}])
def test_what_is_no_object_of_ours_is_not_ours(document: Any) -> None:
    assert not is_ours(document)
    assert isinstance(title_of(document), str)


@given(
    st.sampled_from([*SCHEMAS, ("karpenter.sh/v2", "X"), ("v1", "ConfigMap")]),
    objects("metadata", "spec", "status", "data"),
    json_values("name", "labels", "requirements", "template", "taints", "key", "values"),
)
def test_checking_never_raises(kind: tuple[str, str], document: dict[str, Any], spec: Any) -> None:
    whole = {**document, "spec": spec, "apiVersion": kind[0], "kind": kind[1]}
    faults = check(whole)
    warnings(whole)
    assert all(fault.message for fault in faults)


@pytest.mark.parametrize("key", ["x.karpenter.sh/y", "a.b.karpenter.k8s.aws/c"])
def test_machines_and_overlays_may_not_use_subdomains_that_are_kept(key: str) -> None:
    """As Karpenter's own definitions refuse them."""
    asked = {"requirements": [{"key": key, "operator": "Exists"}]}
    overlay = {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay"}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"}
    claim = of_v1("karpenter.sh", "NodeClaim", {**asked, "nodeClassRef": reference})
    for raw in (claim, {**overlay, "metadata": {"name": "a"}, "spec": asked}):
        [fault] = told(raw)
        assert fault.startswith("spec.requirements[0].key: ")
        assert "restricted domain" in fault


def test_what_v1beta1_said_elsewhere_is_told_field_by_field() -> None:
    """MAP-03: who only changes the version of a v1beta1 object learns of each field that has moved."""
    reference = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "a"}
    template = {"requirements": [], "kubelet": {"maxPods": 20}, "nodeClassRef": reference}
    disruption = {"expireAfter": "720h", "consolidationPolicy": "WhenUnderutilized"}
    spec = {"template": {"spec": template}, "disruption": disruption}
    place = "spec.template.spec"
    assert {text.partition(": ")[0] for text in told(of_v1("karpenter.sh", "NodePool", spec))} == {
        "spec.disruption.consolidateAfter",
        "spec.disruption.expireAfter",
        "spec.disruption.consolidationPolicy",
        f"{place}.kubelet",
        f"{place}.nodeClassRef.group",
        f"{place}.nodeClassRef.apiVersion",
    }
    terms = {"subnetSelectorTerms": [{"id": "subnet-1"}]}
    terms["securityGroupSelectorTerms"] = [{"id": "sg-1"}]
    spec = {"amiFamily": "Ubuntu", "role": "nodes", **terms}
    found = told(of_v1("karpenter.k8s.aws", "EC2NodeClass", spec))
    assert {text.partition(": ")[0] for text in found} == {
        "spec.amiSelectorTerms",
        "spec.amiFamily",
    }


def of_v1(group: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}


def test_the_table_of_schemas_names_the_model_of_every_kind() -> None:
    models = {
        (f"{one.INFO.group}/{version}", one.INFO.kind): one
        for one in catalogue.KINDS
        for version in (one.INFO.version, *one.INFO.also_served)
    }
    assert {identity: schema_of(identity) for identity in SCHEMAS} == models


@pytest.mark.parametrize("kind", PARSERS)
def test_every_kind_that_is_parsed_has_its_parser(kind: str) -> None:
    assert callable(parser_of(kind))
    assert kind in {name for _, name in (*SCHEMAS, INSTANCE_TYPE)}


@pytest.mark.parametrize(
    ("key", "value", "known"),
    [
        ("karpenter.sh/capacity-type", "Spot", "on-demand, spot, reserved"),
        ("kubernetes.io/arch", "x86_64", "amd64, arm64"),
        ("beta.kubernetes.io/os", "Linux", "linux, windows"),
    ],
)
def test_a_value_that_no_machine_has_is_a_warning(key: str, value: str, known: str) -> None:
    """NP-18, also of a Provisioner."""
    document = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "p"},
        "spec": {
            "providerRef": {"name": "default"},
            "requirements": [{"key": key, "operator": "In", "values": [value]}],
        },
    }
    text = f"spec.requirements[0].values: '{value}' is none of {known}; it matches no instance type"
    assert text in map(str, warnings(document))
