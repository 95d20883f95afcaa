"""The options ``--from`` and ``--to`` of all commands that look back."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import commands
from shared.errors import ConfigurationError

COMMANDS = ("decisions", "replay", "shadow diff", "ledger cost", "ledger regret", "cloud bill")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("begin", "end"), [("1h", "2h"), ("2h", "2020-01-01T00:00:00Z")])
def test_a_period_that_ends_before_it_begins_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, begin: str, end: str
) -> None:
    """Before an archive or the emulator is looked for: an empty answer would pass for a quiet hour."""
    monkeypatch.chdir(tmp_path)
    words = [*command.split(), "--from", begin, "--to", end]
    done = CliRunner().invoke(commands, words)
    assert isinstance(done.exception, ConfigurationError)
    assert done.exception.message.startswith("--to must be later than --from: ")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_period_that_has_not_begun_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Its answer would be empty too."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(commands, [*command.split(), "--from", "2999-01-01T00:00:00Z"])
    assert isinstance(done.exception, ConfigurationError)
    assert done.exception.message.startswith("--from must be in the past: ")
