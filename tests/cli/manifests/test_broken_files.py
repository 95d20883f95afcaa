"""Commands that answer from files say so when a file could not be read: nothing found is no answer."""

from __future__ import annotations

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
