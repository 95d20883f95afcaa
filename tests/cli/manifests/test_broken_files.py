"""Commands that answer from files say so when a file could not be read: nothing found is no answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import commands

COMMANDS = [
    ("migrate", "karpenter"),
    ("migrate", "cluster-autoscaler", "--cluster-name", "my-cluster"),
    ("ledger", "cost"),
    ("ledger", "constraints"),
    ("explain", "pod", "web"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("text", "message"),
    [("a:\n\t- b\n", ":2: is not YAML"), ("", "no object in"), ("# nothing\n", "no object in")],
    ids=["tab", "empty", "comment"],
)
def test_a_file_without_readable_objects_is_a_fault(
    words: tuple[str, ...], text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    done = CliRunner().invoke(commands, [*words, "-f", str(path)])
    assert done.exit_code == 1
    assert done.stdout == ""
    assert f"dovetail: {path}{message}" in done.stderr or f"dovetail: {message}" in done.stderr


@pytest.mark.parametrize("words", [("ledger", "cost"), ("ledger", "constraints")], ids=" ".join)
def test_an_object_with_a_fault_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    container = "{name: c, image: i, resources: {requests: {cpu: abc}}}"
    path.write_text(
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: web}}, spec: {{containers: [{container}]}}}}\n"
    )
    done = CliRunner().invoke(commands, [*words, "-f", str(path)])
    assert "fault: Pod/default/web: spec.containers[0].resources.requests.cpu: " in done.stderr


READERS = [
    ("validate",),
    ("convert", "--to", "v1"),
    ("simulate",),
    ("plan",),
    ("explain", "pod", "web"),
    ("ledger", "cost"),
]


@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("3", "4: items: must be a list of objects"),
        ("{a: b}", "4: items: must be a list of objects"),
        ("\n- null", "5: items[0]: must be an object"),
        ("\n- {kind: Service, metadata: {name: a}}\n- [a]", "6: items[1]: must be an object"),
    ],
)
def test_a_list_without_objects_is_a_fault_at_its_line(
    words: tuple[str, ...], items: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(f"apiVersion: v1\nkind: List\nmetadata: {{}}\nitems: {items}\n")
    done = CliRunner().invoke(commands, [*words, "-f", str(path)])
    assert done.exit_code == 1
    # `validate` and `convert` name the column too.
    assert message in re.sub(r":(\d+):\d+: ", r":\1: ", done.output)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b\nmetadata: {name: web}\n", "1: kind: is required"),
        ("kind: Service\n---\nkind: [a]\n", "3: kind: is required"),
        ("some text\n", "1: must be an object"),
    ],
)
def test_simulate_names_the_line_of_what_is_no_object(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    done = CliRunner().invoke(commands, ["simulate", "-f", str(path)])
    assert f"fault: {path}:{message}\n" in done.stderr
    assert done.stderr.count("fault: ") == 1


def test_plan_names_the_field_of_a_fault_of_yaml(tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text("kind: NodePool\nspec:\n  weight: 1\n  weight: 2\n")
    done = CliRunner().invoke(commands, ["plan", "-f", str(path)])
    assert f"dovetail: {path}:4: spec.weight: duplicate key" in done.stderr


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n"])
def test_convert_of_nothing_is_no_success(text: str, tmp_path: Path) -> None:
    """As for `validate`: the command before it in a pipe may have failed."""
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    done = CliRunner().invoke(commands, ["convert", "--to", "v1", "-f", str(path)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "the inputs have no document" in done.stderr
