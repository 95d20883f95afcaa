"""Who changes only the version and kind of an object learns where each of its fields belongs."""

from typing import Any

import pytest

from shared.api.registry import check

REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"}
TERMS = [{"tags": {"a": "b"}}]


def faults(version: str, kind: str, spec: dict[str, Any]) -> list[str]:
    found = check({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec})
    return [str(one) for one in found]


def of_pool(spec: dict[str, Any], template: dict[str, Any] | None = None) -> list[str]:
    inside = {"nodeClassRef": REFERENCE, "requirements": [], **(template or {})}
    disruption = {"consolidateAfter": "0s", **spec.pop("disruption", {})}
    whole = {"template": {"spec": inside}, "disruption": disruption, **spec}
    return faults("karpenter.sh/v1", "NodePool", whole)


@pytest.mark.parametrize(
    ("spec", "template", "fault"),
    [
        (
            {"disruption": {"expireAfter": "720h"}}, {},
            "spec.disruption.expireAfter: unknown field; in v1 it is spec.template.spec.expireAfter",
        ),
        (
            {}, {"kubelet": {"maxPods": 5}},
            "spec.template.spec.kubelet: unknown field; in v1 it is spec.kubelet of the EC2NodeClass",
        ),
        (
            {}, {"nodeClassRef": {**REFERENCE, "apiVersion": "karpenter.k8s.aws/v1"}},
            "spec.template.spec.nodeClassRef.apiVersion: unknown field; "
            "v1 has group and kind instead, such as group: karpenter.k8s.aws",
        ),
        ({"taints": []}, {}, "spec.taints: unknown field; in v1 it is spec.template.spec.taints"),
        ({"labels": {}}, {}, "spec.labels: unknown field; in v1 it is spec.template.metadata.labels"),
        ({"budgets": []}, {}, "spec.budgets: unknown field; in v1 it is spec.disruption.budgets"),
        (
            {"ttlSecondsUntilExpired": 9}, {},
            "spec.ttlSecondsUntilExpired: unknown field; v1 has spec.template.spec.expireAfter instead, with a unit",
        ),
        (
            {"limits": {"resources": {"cpu": 5}}}, {},
            "spec.limits.resources: must be a quantity such as 500m, 2 or 1.5Gi; put fractions in quotes; "
            "in v1 its entries are those of spec.limits",
        ),
    ],
)  # fmt: skip
def test_a_node_pool_says_where_fields_belong(
    spec: dict[str, Any], template: dict[str, Any], fault: str
) -> None:
    assert of_pool(spec, template) == [fault]


def test_a_node_class_says_what_it_has_instead() -> None:
    terms = {"subnetSelectorTerms": TERMS, "securityGroupSelectorTerms": TERMS}
    spec = {"role": "a", "amiSelectorTerms": [{"alias": "al2023@latest"}], **terms}
    found = faults(
        "karpenter.k8s.aws/v1",
        "EC2NodeClass",
        {**spec, "subnetSelector": {}, "launchTemplate": "a"},
    )
    assert found == [
        "spec.launchTemplate: unknown field; v1 has no launch templates of your own; write its settings here",
        "spec.subnetSelector: unknown field; v1 has subnetSelectorTerms instead, a list of terms",
    ]


def test_the_old_kinds_say_what_they_have_instead() -> None:
    pool = {"providerRef": {"name": "a"}, "disruption": {}, "limits": {"cpu": 5}, "kubelet": {}}
    assert faults("karpenter.sh/v1alpha5", "Provisioner", pool) == [
        "spec.disruption: unknown field; "
        "v1alpha5 has consolidation, ttlSecondsAfterEmpty and ttlSecondsUntilExpired instead",
        "spec.kubelet: unknown field; in v1alpha5 it is spec.kubeletConfiguration",
        "spec.limits.cpu: unknown field; in v1alpha5 it is spec.limits.resources.cpu",
    ]
    template = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}, "role": "a"}
    assert faults("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", template) == [
        "spec.role: unknown field; v1alpha1 has instanceProfile instead",
    ]


def test_the_container_runtime_of_a_kubelet_is_to_be_removed() -> None:
    """Manifests of many guides kept it, and ``containerRuntimeEndpoint`` resembles it."""
    kubelet = {"kubelet": {"containerRuntime": "containerd"}}
    spec = {"role": "a", "amiSelectorTerms": [{"alias": "al2023@latest"}], **kubelet}
    terms = {"subnetSelectorTerms": TERMS, "securityGroupSelectorTerms": TERMS}
    assert faults("karpenter.k8s.aws/v1", "EC2NodeClass", {**spec, **terms}) == [
        "spec.kubelet.containerRuntime: is not a kubelet setting; remove it: every node has containerd"
    ]
    template = {"spec": {"nodeClassRef": {"name": "a"}, "requirements": [], **kubelet}}
    assert faults("karpenter.sh/v1beta1", "NodePool", {"template": template}) == [
        "spec.template.spec.kubelet.containerRuntime: unknown field; remove it: every node has containerd"
    ]


def test_a_typing_error_is_still_answered_with_its_nearest_name() -> None:
    assert of_pool({"wieght": 5}) == ["spec.wieght: unknown field; did you mean weight?"]
