"""``dovetail convert`` as people meet it: YAML on stdout, comments on what is lost, faults instead of output."""

from pathlib import Path

import yaml
from typer.testing import CliRunner, Result

from cli.convert import text_of
from cli.main import commands
from shared.api.faults import Fault
from shared.api.written import Written

SEEDS = Path(__file__).parents[1] / "seeds"
PAIR = """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default
spec:
  providerRef:
    name: default
  kubeletConfiguration:
    maxPods: 20
---
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata:
  name: default
spec:
  subnetSelector: {a: b}
  securityGroupSelector: {a: b}
  userData: |
    #!/bin/bash
    echo y
  tags: {answer: "y", number: "1e3"}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: karpenter-global-settings
data:
  aws.clusterName: one
"""


def convert(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(commands, ["convert", *words], input=stdin)


def test_help_has_an_example() -> None:
    done = convert("--help")
    assert done.exit_code == 0
    assert "dovetail convert -f" in done.stdout


def test_the_other_generation_is_printed_as_yaml() -> None:
    done = convert("-f", "-", "--to", "v1", stdin=PAIR)
    documents = [one for one in yaml.safe_load_all(done.stdout) if one]
    assert done.exit_code == 0
    assert [one["kind"] for one in documents] == ["NodePool", "EC2NodeClass"]
    assert documents[1]["spec"]["kubelet"] == {"maxPods": 20}


def test_what_has_no_counterpart_is_a_comment_above_the_document() -> None:
    done = convert("-f", "-", "--to", "v1", stdin=PAIR)
    _, made, settings = done.stdout.split("---\n")
    assert made.startswith("# spec.role: v1 has no default instance profile;")
    assert "\n# data[aws.clusterName]: CLUSTER_NAME=one\n" in settings
    assert "look at the comments in the output: 3" in done.stderr


def test_text_keeps_its_lines_and_its_quotes() -> None:
    done = convert("-f", "-", "--to", "v1", stdin=PAIR)
    assert "  userData: |\n    #!/bin/bash\n    echo y\n" in done.stdout
    assert 'answer: "y"\n    number: "1e3"\n' in done.stdout


def test_a_comment_stays_on_its_line() -> None:
    note = Fault(("spec", "userData"), "one\nkind: Pod\u2028two")
    lines = text_of([Written({"kind": "A"}, (note,))]).splitlines()
    assert lines == ["# spec.userData: one\\nkind: Pod\\u2028two", "kind: A"]


def test_faulty_manifests_are_refused_as_validate_does() -> None:
    """Scenario 16: which of two lists was meant is not for us to guess."""
    done = convert("-f", str(SEEDS / "002-3-provisioner-indented.yaml"), "--to", "v1")
    assert done.exit_code == 1
    assert "spec.requirements: is there twice" in done.stdout
    assert "apiVersion" not in done.stdout


def test_a_missing_file_ends_with_code_2(tmp_path: Path) -> None:
    assert convert("-f", str(tmp_path / "none.yaml"), "--to", "v1").exit_code == 2


def test_an_unknown_generation_is_a_usage_error() -> None:
    done = convert("-f", "-", "--to", "v1beta1", stdin=PAIR)
    assert done.exit_code == 2
    assert "v1alpha5" in done.stderr


def test_there_and_back_is_valid_again() -> None:
    there = convert("-f", str(SEEDS / "002-2-node-template-indented.yaml"), "--to", "v1")
    back = convert("-f", "-", "--to", "v1alpha5", stdin=there.stdout)
    assert (there.exit_code, back.exit_code) == (0, 0)
    (template,) = yaml.safe_load_all(back.stdout)
    assert template["kind"] == "AWSNodeTemplate"
    assert template["spec"]["subnetSelector"] == {"karpenter.sh/discovery": "bys-dev-eks-main"}
