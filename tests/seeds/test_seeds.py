"""Every manifest of the seed documents, as it stands there: accepted, or refused with a message that helps.

The documents lost indentation on their way: files ``*-indented.yaml`` have it back, and nothing else changed. Manifests
with ``${CLUSTER_NAME}`` are valid, with a warning: the name is to be filled in.
"""

from pathlib import Path

import pytest

from cli.manifests.reading import read_manifests
from cli.manifests.validate import Report, examine

HERE = Path(__file__).parent / "manifests"
TABS = "is not YAML: found character that cannot start any token; this is a tab: indent with spaces"
ONE_LINE = "is not YAML: mapping values are not allowed in this context"
ONE_ITEM = "a taint needs key and effect in one list item; value is optional"

REFUSED: dict[str, list[str]] = {
    "000-1-pod-requests.yaml": [f":3:1: {TABS}"],
    "000-2-node-selector.yaml": [f":4:1: {TABS}"],
    "000-3-provisioner-taints.yaml": [
        ":2:1: Provisioner/?: metadata.name: is required",
        ":5:1: is not YAML: did not find expected <document start>; start the document after '...'",
    ],
    # ACC-11: three incomplete taints, not silently merged into one.
    "000-3-provisioner-taints-indented.yaml": [
        f":10:7: Provisioner/default: spec.taints[0]: {ONE_ITEM}",
        f":11:7: Provisioner/default: spec.taints[1]: {ONE_ITEM}",
        f":12:7: Provisioner/default: spec.taints[2]: {ONE_ITEM}",
    ],
    # P-07: the sample of the article says nothing about AWS.
    "001-3-provisioner-special-taint.yaml": [
        ":6:1: Provisioner/default: spec.providerRef.name: is required: the name of an AWSNodeTemplate"
    ],
    "002-1-controller-affinity.yaml": [f":2:23: {ONE_LINE}"],
    "002-2-node-template.yaml": [
        ":4:1: AWSNodeTemplate/?: metadata.name: is required; indent the lines",
        ":6:1: AWSNodeTemplate/?: spec: is empty; indent the lines that belong to it",
        ":12:1: AWSNodeTemplate/?: [karpenter.sh/discovery]: duplicate key; the first, at line 9, is ignored",
    ],
    "002-3-provisioner.yaml": [":17:1: is not YAML: did not find expected key; check the indent"],
    # ACC-16: the second list of requirements would win without a word.
    "002-3-provisioner-indented.yaml": [
        ":23:3: Provisioner/karpenter-default: spec.requirements: duplicate key; the first, at line 13, is ignored"
    ],
    "002-4-node.yaml": [f":2:20: {ONE_LINE}"],
    "002-5-node-finalizers.yaml": [f":2:20: {ONE_LINE}"],
}

ACCEPTED = {"001-1-provisioner-spot.yaml", "002-2-node-template-indented.yaml"}

IGNORED: dict[str, str] = {
    "000-4-node-taints.yaml": "without kind",
    # ACC-12: part of a pod, which only a Provisioner with the label Karpenter=enabled can serve.
    "000-5-pod-tolerations.yaml": "without kind",
    "001-2-cluster-config.yaml": "ClusterConfig",
    "001-4-pod-spread.yaml": "without kind",
    "002-6-daemon-affinity.yaml": "without kind",
    "003-1-deployment.yaml": "Deployment",
    "003-1-deployment-indented.yaml": "Deployment",
}


def report_on(name: str) -> Report:
    return examine(read_manifests([str(HERE / name)]))


def test_every_file_has_its_expectation() -> None:
    assert {path.name for path in HERE.glob("*.yaml")} == {*REFUSED, *ACCEPTED, *IGNORED}


@pytest.mark.parametrize("name", REFUSED)
def test_a_faulty_manifest_is_refused_with_the_line_and_what_to_do(name: str) -> None:
    report = report_on(name)
    told = [finding.text() for finding in report.faults]
    missing = [want for want in REFUSED[name] if not any(f"{name}{want}" in line for line in told)]
    assert missing == []
    assert report.exit_code() == 1


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_a_valid_manifest_is_accepted(name: str) -> None:
    report = report_on(name)
    assert (report.faults, report.checked, report.exit_code()) == ([], 1, 0)


@pytest.mark.parametrize("name", IGNORED)
def test_a_manifest_of_another_kind_is_ignored(name: str) -> None:
    report = report_on(name)
    assert (report.checked, report.faults) == (0, [])
    assert dict(report.ignored) == {IGNORED[name]: 1}


def test_a_placeholder_is_pointed_at() -> None:
    told = [finding.text() for finding in report_on("001-1-provisioner-spot.yaml").warnings]
    assert sum("${CLUSTER_NAME} is a placeholder" in line for line in told) == 2


def test_defaults_of_the_second_list_are_told() -> None:
    """ACC-16: with the first list lost, P-19 restricts category and generation."""
    told = [finding.text() for finding in report_on("002-3-provisioner-indented.yaml").warnings]
    assert any(
        "these defaults apply: karpenter.k8s.aws/instance-category In [c, m, r], "
        "karpenter.k8s.aws/instance-generation Gt [2]" in line
        for line in told
    )
