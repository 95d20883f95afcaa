"""``dovetail validate`` as people meet it: lines, counts, exit codes."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.main import commands
from cli.manifests.reading import FILE_LIMIT_BYTES, read_manifests

POOL = """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default
spec:
  providerRef:
    name: default
"""
FAULTY = POOL + "  weight: 101\n  wieght: 5\n"
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\n"


def validate(*words: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(commands, ["validate", *words], input=stdin)


def converted(stdin: str) -> Result:
    return CliRunner().invoke(commands, ["convert", "-f", "-", "--to", "v1"], input=stdin)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pools.yaml"


def test_help_has_an_example_and_shows_a_fault() -> None:
    done = validate("--help")
    assert done.exit_code == 0
    assert "dovetail validate -f" in done.stdout
    assert "pools.yaml:12:9: NodePool/default: spec.weight" in done.stdout


def test_every_fault_has_file_line_object_and_field(file: Path) -> None:
    file.write_text(FAULTY)
    done = validate("-f", str(file))
    lines = done.stdout.splitlines()
    assert done.exit_code == 1
    assert lines[0] == f"{file}:8:3: Provisioner/default: spec.weight: must be at most 100"
    assert lines[1].startswith(f"{file}:9:3: Provisioner/default: spec.wieght: unknown field")
    assert lines[-1] == "1 object checked, 2 faults, 0 warnings"


def test_warnings_are_told_and_are_no_faults(file: Path) -> None:
    file.write_text(POOL)
    done = validate("-f", str(file))
    assert done.exit_code == 0
    assert (
        f"{file}:5:1: warning: Provisioner/default: spec.requirements: these defaults"
        in done.stdout
    )


CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-12345678}]
  securityGroupSelectorTerms: [{id: sg-12345678}]
  role: nodes
  kubelet:
    maxPods: MOST
"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("vcpus +", "spec.kubelet.maxPods: is no CEL expression"),
        ("cores * 10", "spec.kubelet.maxPods: does not know cores; use instance_type, vcpus"),
        ("vcpus - 2", "outside 0 to 2147483647"),
    ],
)
def test_an_expression_that_fails_for_a_type_of_aws_is_a_fault(text: str, fault: str) -> None:
    """EC-11: amounts by instance type."""
    done = validate("-f", "-", stdin=CLASS.replace("MOST", text))
    assert done.exit_code == 1
    assert done.stdout.startswith("stdin:10:5: EC2NodeClass/default: spec.kubelet.maxPods")
    assert fault in done.stdout


def test_an_expression_is_a_warning_as_it_needs_a_gate() -> None:
    done = validate("-f", "-", stdin=CLASS.replace("MOST", "min(110, max_pods)"))
    assert done.exit_code == 0
    assert "warning: EC2NodeClass/default: spec.kubelet.maxPods: is a CEL expression" in done.stdout
    assert "AWS_FEATURE_GATES=NodeClassCEL=true" in done.stdout
    assert "0 warnings" in validate("-f", "-", stdin=CLASS.replace("MOST", "110")).stdout


def test_directories_are_read_with_all_below_them(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.yml").write_text(POOL)
    (tmp_path / "two.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Service"}))
    (tmp_path / "notes.txt").write_text("no: [yaml")
    done = validate("-f", str(tmp_path))
    assert done.exit_code == 0
    assert "1 object checked" in done.stdout
    assert "1 other document ignored (Service 1)" in done.stdout


def test_standard_input_and_several_documents_are_read() -> None:
    done = validate("-f", "-", stdin=f"{DEPLOYMENT}---\n{FAULTY}---\n\n---\n{POOL}")
    assert done.exit_code == 1
    assert "stdin:13:3: Provisioner/default: spec.weight: must be at most 100" in done.stdout
    assert "2 objects checked" in done.stdout


def test_items_of_a_list_have_their_own_lines() -> None:
    items = "".join(f"- {FAULTY}".replace("\n", "\n  ").rstrip() + "\n" for _ in range(2))
    done = validate("-f", "-", stdin=f"apiVersion: v1\nkind: List\nitems:\n{items}")
    assert "stdin:11:5: Provisioner/default: spec.weight:" in done.stdout
    assert "stdin:20:5: Provisioner/default: spec.weight:" in done.stdout


def test_items_of_a_list_of_one_kind_need_no_kind() -> None:
    """As ``kubectl get --raw`` prints them."""
    items = "- metadata: {name: a}\n  spec: {weight: 200, providerRef: {name: a}}\n"
    head = "apiVersion: karpenter.sh/v1alpha5\nkind: ProvisionerList\nmetadata: {}\nitems:\n"
    done = validate("-f", "-", stdin=head + items)
    assert "stdin:6:10: Provisioner/a: spec.weight: must be at most 100" in done.stdout
    assert "1 object checked, 1 fault" in done.stdout
    assert "spec.weight: must be at most 100" in converted(head + items).output


def test_a_list_of_other_kinds_is_one_document() -> None:
    allowed = "apiVersion: example.com/v1\nkind: AllowList\nitems: [a, b]\n"
    done = validate("-f", "-", stdin=allowed)
    assert (done.exit_code, done.stdout) == (
        0,
        "0 objects checked, 0 faults, 0 warnings, 1 other document ignored (AllowList 1)\n",
    )


def test_objects_of_a_json_array_are_checked() -> None:
    """As ``jq .items`` prints them; an array of anything else, such as of a patch, is one document."""
    pool = (
        '{"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "a"}}'
    )
    done = validate("-f", "-", stdin=f"[{pool},\n {pool}]")
    assert "stdin:2:2: Provisioner/a: spec" in done.stdout
    assert "2 objects checked" in done.stdout
    patch = validate("-f", "-", stdin='[{"op": "remove", "path": "/spec"}, 1]')
    assert "1 other document ignored" in patch.stdout


def test_a_list_that_is_there_twice_is_not_lost_in_silence() -> None:
    done = validate("-f", "-", stdin="kind: List\nitems: []\nitems: []\n")
    assert "stdin:3:1: items: duplicate key" in done.stdout
    assert done.exit_code == 1


def test_duplicate_keys_are_faults_of_our_objects_only() -> None:
    """ACC-16: a list given twice."""
    twice = "  weight: 1\n  weight: 2\n"
    done = validate("-f", "-", stdin=f"{POOL}{twice}---\n{DEPLOYMENT}kind: Deployment\n")
    told = [line for line in done.stdout.splitlines() if "duplicate key" in line]
    assert told == [
        "stdin:9:3: Provisioner/default: spec.weight: duplicate key; "
        "the first, at line 8, is ignored"
    ]


def test_a_billion_laughs_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    done = validate("-f", "-", stdin="\n".join(lines))
    assert done.exit_code == 1
    assert "more than 1000000 values" in done.stdout


def test_an_empty_name_is_not_the_current_directory(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(FAULTY)
    monkeypatch.chdir(file.parent)
    done = validate("-f", "")
    assert done.exit_code == 2
    assert "-f: the name of a file or directory is empty" in done.stderr
    assert "spec.weight" not in done.stdout


def test_what_cannot_be_read_ends_with_code_2_and_the_rest_is_checked(
    file: Path, tmp_path: Path
) -> None:
    file.write_text(FAULTY)
    done = validate("-f", str(tmp_path / "missing.yaml"), "-f", str(file))
    assert done.exit_code == 2
    assert "missing.yaml: No such file or directory" in done.stderr
    assert "spec.weight" in done.stdout


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"\xff\xfe\x00", "not UTF-8 text"), (b"#" * (FILE_LIMIT_BYTES + 1), "larger than 16 MiB")],
    ids=["binary", "large"],
)
def test_input_that_is_no_text_or_too_large_is_unreadable(content: bytes, why: str) -> None:
    done = validate("-f", "-", stdin=content)
    assert done.exit_code == 2
    assert f"dovetail: stdin: {why}" in done.stderr


def test_output_for_programs(file: Path) -> None:
    file.write_text(FAULTY + "---\n" + DEPLOYMENT)
    done = validate("-f", str(file), "-o", "json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (report["checked"], report["ignored"]) == (1, {"Deployment": 1})
    assert report["faults"][0] == {
        "file": str(file),
        "line": 8,
        "column": 3,
        "object": "Provisioner/default",
        "field": "spec.weight",
        "message": "must be at most 100",
    }


def test_nothing_is_sent_to_the_terminal_that_it_would_obey() -> None:
    done = validate("-f", "-", stdin=POOL + '  "\\e[31m\\u202Ex": 1\n')
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert "\\x1b[31m\\u202ex" in done.stdout


def test_an_older_version_says_which_to_write() -> None:
    old = "apiVersion: karpenter.sh/v1alpha4\nkind: NodePool\nmetadata:\n  name: a\n"
    done = validate("-f", "-", stdin=old)
    assert "stdin:1:1: NodePool/a: apiVersion: NodePool is not supported in" in done.stdout
    assert done.exit_code == 1


def test_a_directory_without_manifests_is_a_mistake_in_the_path(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("nothing here")
    done = validate("-f", str(tmp_path))
    assert done.exit_code == 2
    assert f"{tmp_path}: contains no *.yaml, *.yml, *.json file" in done.stderr


def test_a_directory_that_cannot_be_listed_is_told_and_the_rest_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may list everything, so the system's answer is given by hand."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one.yaml").write_text(POOL)
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if str(path).endswith("/a"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    done = validate("-f", str(tmp_path))
    assert done.exit_code == 2
    assert f"{tmp_path / 'a'}: Permission denied" in done.stderr
    assert "1 object checked" in done.stdout


def test_a_closed_standard_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell leaves it after ``<&-``."""
    monkeypatch.setattr("sys.stdin", None)
    (found,) = read_manifests(["-"])
    assert found.unreadable == "standard input is closed"


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "---\n---\n"])
def test_inputs_without_a_document_are_not_taken_for_checked(text: str) -> None:
    """As after ``helm template chart | dovetail validate -f -`` with a chart that cannot be rendered."""
    done = validate("-f", "-", stdin=text)
    assert done.exit_code == 2
    assert done.stderr.startswith("dovetail: the inputs have no document")
    assert validate("-f", "-", stdin="kind: Pod\n").exit_code == 0
