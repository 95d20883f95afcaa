"""``dovetail convert`` as people meet it: YAML on stdout, comments on what is lost, faults instead of output."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.main import commands
from cli.manifests.convert import _served, _with_note, text_of
from shared.api.conversion.written import Written
from shared.api.crd.definitions import custom_resource_definition
from shared.api.faults import Fault
from shared.api.schema.kinds import Resource

SEEDS = Path(__file__).parents[2] / "seeds" / "manifests"
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


OWN_PROFILE = "spec:\n  instanceProfile: own\n  subnet"
ROLE = ("--role", "nodes")


def convert(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(commands, ["convert", *words], input=stdin)


def made(*words: str, stdin: str) -> list[dict[str, Any]]:
    """The documents that are printed."""
    done = convert("-f", "-", "--to", "v1", *words, stdin=stdin)
    assert done.exit_code == 0, done.stdout
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def test_help_has_an_example() -> None:
    done = convert("--help")
    assert done.exit_code == 0
    assert "dovetail convert -f" in done.stdout


def test_the_other_generation_is_printed_as_yaml() -> None:
    documents = made(*ROLE, stdin=PAIR)
    assert [one["kind"] for one in documents] == ["NodePool", "EC2NodeClass"]
    assert documents[1]["spec"]["kubelet"] == {"maxPods": 20}


def test_what_has_no_counterpart_is_a_comment_above_the_document() -> None:
    done = convert("-f", "-", "--to", "v1", *ROLE, stdin=PAIR)
    _, _, settings = done.stdout.split("---\n")
    assert "\n# data[aws.clusterName]: CLUSTER_NAME=one\n" in settings
    assert "the output has 2 comments" in done.stderr


def test_a_class_without_role_or_profile_is_refused_with_its_line_and_the_options() -> None:
    """v1 would refuse it, too; so nothing is printed."""
    done = convert("-f", "-", "--to", "v1", stdin=PAIR)
    assert done.exit_code == 1
    assert "stdin:11:1: as EC2NodeClass/default: spec.role: " in done.stdout
    assert "give --role or --instance-profile" in done.stdout
    assert "apiVersion" not in done.stdout


@pytest.mark.parametrize(
    ("option", "field"), [("--role", "role"), ("--instance-profile", "instanceProfile")]
)
def test_the_identity_of_the_nodes_may_be_given(option: str, field: str) -> None:
    assert made(option, "nodes", stdin=PAIR)[1]["spec"][field] == "nodes"


def test_the_default_instance_profile_of_the_settings_is_taken() -> None:
    said = PAIR + "  aws.defaultInstanceProfile: profile\n"
    assert made(stdin=said)[1]["spec"]["instanceProfile"] == "profile"
    assert "role" not in made(*ROLE, stdin=PAIR.replace("spec:\n  subnet", OWN_PROFILE))[1]["spec"]


def test_role_and_instance_profile_exclude_each_other() -> None:
    done = convert("-f", "-", "--to", "v1", *ROLE, "--instance-profile", "p", stdin=PAIR)
    assert done.exit_code == 2
    assert "not both" in done.stderr


def test_what_v1_cannot_be_made_of_is_refused() -> None:
    """The comment would have said it above a document that no server takes."""
    ubuntu = PAIR.replace("  userData", "  amiFamily: Ubuntu\n  userData")
    done = convert("-f", "-", "--to", "v1", *ROLE, stdin=ubuntu)
    assert done.exit_code == 1
    assert "v1 has no family Ubuntu" in done.stdout


def test_text_keeps_its_lines_and_its_quotes() -> None:
    done = convert("-f", "-", "--to", "v1", *ROLE, stdin=PAIR)
    assert "  userData: |\n    #!/bin/bash\n    echo y\n" in done.stdout
    assert 'answer: "y"\n    number: "1e3"\n' in done.stdout


def test_a_comment_stays_on_its_line() -> None:
    note = Fault(("spec", "userData"), "one\nkind: Pod\u2028two")
    lines = text_of([Written({"kind": "A"}, (note,))]).splitlines()
    assert lines == ["# spec.userData: one\\nkind: Pod\\u2028two", "kind: A"]


def test_a_fault_that_the_conversion_explains_has_its_note() -> None:
    """The note names the correction, which the rule that was broken does not know."""
    notes = {"spec.role": "give --role"}
    assert _with_note(Fault(("spec", "role"), "is needed"), notes) == (
        "spec.role",
        "is needed; give --role",
    )
    assert _with_note(Fault(("spec", "tags"), "is wrong"), notes) == ("spec.tags", "is wrong")


def test_a_document_that_is_no_object_is_left_out() -> None:
    done = convert("-f", "-", "--to", "v1", *ROLE, stdin=f"just text\n---\n{PAIR}")
    assert done.exit_code == 0
    assert "just text" not in done.stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("apiVersion: v1\nkind: Pod\nkind: Service\n", "stdin:3:1: Service/?: kind: duplicate key"),
        ("kind: Pod\na: &a\n  b: *a\n", "stdin:3:3: Pod/?: a.b: the alias *a has no anchor"),
    ],
)
def test_documents_of_other_kinds_whose_content_would_be_lost_are_refused(
    text: str, told: str
) -> None:
    """They are printed as they are, so a key that is there twice would be there once."""
    done = convert("-f", "-", "--to", "v1", *ROLE, stdin=f"{text}---\n{PAIR}")
    assert done.exit_code == 1
    assert told in done.stdout
    assert "apiVersion" not in done.stdout


def test_faults_are_told_before_options_that_exclude_each_other() -> None:
    both = (*ROLE, "--instance-profile", "p")
    assert convert("-f", "/nowhere", "--to", "v1", *both).exit_code == 2
    assert "not both" not in convert("-f", "/nowhere", "--to", "v1", *both).stderr


def test_faulty_manifests_are_refused_as_validate_does() -> None:
    """ACC-16: which of two lists was meant is not for us to guess."""
    done = convert("-f", str(SEEDS / "002-3-provisioner-indented.yaml"), "--to", "v1")
    assert done.exit_code == 1
    assert "spec.requirements: duplicate key" in done.stdout
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


def test_the_settings_of_the_old_generation_are_no_obstacle_on_the_way_back() -> None:
    settings = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: karpenter-global-settings}\n"
        'data: {"batchMaxDuration": "10s"}\n'
    )
    done = convert("-f", "-", "--to", "v1alpha5", stdin=settings)
    assert (done.exit_code, done.exception) == (0, None)


def test_manifests_of_v1beta1_become_v1() -> None:
    """MAP-03: kubelet settings move to the class; a setting without effect is named."""
    pool = (
        "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n"
        "      requirements: []\n      nodeClassRef: {name: a}\n      kubelet: {maxPods: 9}\n"
        "      resources: {requests: {cpu: 1}}\n"
    )
    node_class = (
        "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: a}\nspec:\n  amiFamily: AL2\n"
        "  role: nodes\n  subnetSelectorTerms: [{id: subnet-0123}]\n"
        "  securityGroupSelectorTerms: [{id: sg-0123}]\n"
    )
    done = convert("-f", "-", "--to", "v1", stdin=f"{pool}---\n{node_class}")
    assert done.exit_code == 0, done.output
    made = list(yaml.safe_load_all(done.stdout))
    assert [one["apiVersion"] for one in made] == ["karpenter.sh/v1", "karpenter.k8s.aws/v1"]
    assert made[1]["spec"]["kubelet"] == {"maxPods": 9}
    assert "# spec.template.spec.resources: has no effect in a NodePool" in done.stdout


def test_a_kind_has_its_schema_made_once_for_all_of_its_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a file of 800 objects this was nine tenths of the time."""
    made: list[str] = []

    def counted(kind: type[Resource]) -> dict[str, Any]:
        made.append(kind.INFO.kind)
        return custom_resource_definition(kind)

    monkeypatch.setattr("cli.manifests.convert.custom_resource_definition", counted)
    _served.cache_clear()
    classes = "---\n".join(CLASS_TEXT.replace("NAME", f"a{place}") for place in range(3))
    done = convert("-f", "-", "--to", "v1alpha5", stdin=classes)
    assert done.exit_code == 0, done.stderr
    assert made == ["AWSNodeTemplate"]


CLASS_TEXT = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: NAME}
spec:
  instanceProfile: nodes
  amiSelectorTerms: [{alias: al2@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
"""


def test_terms_without_an_equivalent_are_named_once() -> None:
    terms = "subnetSelectorTerms: [{id: subnet-1}, {tags: {a: b}}]"
    spec = f"{terms}, securityGroupSelectorTerms: [{{name: a}}], role: r"
    head = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: a}\n"
    images = "amiSelectorTerms: [{alias: al2023@latest}]"
    done = convert("-f", "-", "--to", "v1alpha5", stdin=f"{head}spec: {{{spec}, {images}}}\n")
    assert done.exit_code == 1
    [line] = done.stdout.splitlines()
    assert line.count("is required") == 1
    assert "no v1alpha1 selector is equivalent to these terms" in line


def test_one_comment_is_not_called_several() -> None:
    done = convert("-f", "-", "--to", "v1", *ROLE, stdin=PAIR.partition("---\n")[0])
    assert "the output has 1 comment; read it before you apply it" in done.stderr
