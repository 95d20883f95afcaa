"""IDs of docs/spec are for those who work on Dovetail: no user reads one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.main import COMMANDS, commands
from shared import settings
from shared.metrics import Metrics
from tests.support.texts.citations import CITATION, PROJECT, sources
from tests.support.texts.documents import user_pages

SERVICES = [
    settings.WatcherSettings,
    settings.SchedulerSettings,
    settings.LauncherSettings,
    settings.TerminatorSettings,
    settings.InterruptionSettings,
    settings.ConsoleSettings,
]
FOR_USERS = ("README.md", "CHANGELOG.md", "SECURITY.md", "deploy/**/*.yaml")
SHIPPED = ("services", "shared", "local", "cli")


def ids_in(text: str) -> list[str]:
    return [found[0] for found in CITATION.finditer(text)]


@pytest.mark.parametrize("kind", SERVICES, ids=lambda kind: kind.__name__)
def test_none_in_the_help_of_a_service(kind: type[settings.ServiceSettings]) -> None:
    assert ids_in(settings.describe(kind)) == []


def paths() -> list[tuple[str, ...]]:
    """The words of every command, those of groups included."""
    found: list[tuple[str, ...]] = [()]
    for name, command in COMMANDS.items():
        part = getattr(import_module(command.module), name.replace("-", "_"))
        below = typer.main.get_command(part) if isinstance(part, typer.Typer) else None
        found += [(name,), *((name, one) for one in getattr(below, "commands", {}))]
    return found


@pytest.mark.slow
def test_none_in_the_help_of_the_command() -> None:
    printed = {words: CliRunner().invoke(commands, [*words, "--help"]) for words in paths()}
    assert len(printed) > 25
    assert {answer.exit_code for answer in printed.values()} == {0}
    assert [words for words, answer in printed.items() if ids_in(answer.output)] == []


def test_none_in_the_metrics() -> None:
    assert ids_in(Metrics("test").text().decode()) == []


def test_none_in_the_documents_and_manifests() -> None:
    documents = [*user_pages(), *(path for pattern in FOR_USERS for path in PROJECT.glob(pattern))]
    assert len(documents) > 30
    assert {path.name: found for path in documents if (found := ids_in(path.read_text()))} == {}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and value of every string of a module that is no docstring and no comment for the next reader."""
    if not ids_in(text := path.read_text()):
        return
    tree = ast.parse(text)
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.lineno, node.value


@pytest.mark.slow
def test_none_in_log_messages_events_and_errors() -> None:
    """Every string that the program could print; a comment in a script for Redis is printed by nobody."""
    modules = [path for path in sources(*SHIPPED) if path.suffix == ".py"]
    assert len(modules) > 300
    found = {
        f"{path.relative_to(PROJECT)}:{line}: {text}"
        for path in modules
        for line, text in texts(path)
        if ids_in(text) and "redis.call" not in text
    }
    assert found == set()
