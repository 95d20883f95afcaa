"""Every ``dovetail ...`` that README and docs show is a command that exists, with options that it has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import typer

from cli.kubectl.command import options_first, plugin
from cli.main import commands
from tests.support.texts.blocks import blocks, pages
from tests.support.texts.shell_lines import calls, logical_lines

ANY_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:\.venv/bin/|kubectl )?dovetail [^`]+)`")
PROGRAMS = ("dovetail", ".venv/bin/dovetail")
OF_TYPER = ("--install-completion", "--show-completion")


class Shown(NamedTuple):
    """One command line, without the program's name."""

    document: str
    words: tuple[str, ...]
    whole: bool
    """To be typed as it stands; in a sentence arguments and values may be left out."""


def shown_in(document: str, text: str) -> Iterator[Shown]:
    lines = [
        line
        for block in blocks(document, text)
        if block.is_shell
        for line in logical_lines(block.commands)
    ]
    for line in lines:
        yield from (Shown(document, words, True) for words in ours(line))
    for line in INLINE.findall(ANY_FENCE.sub("", text)):
        yield from (Shown(document, words, False) for words in ours(line))


def ours(line: str) -> Iterator[tuple[str, ...]]:
    """The words after the program's name, also where `docker compose run` starts it; the plugin keeps kubectl."""
    for words in calls(line):
        if words[0] in PROGRAMS:
            yield words[1:]
        elif words[:2] == ("kubectl", "dovetail"):
            yield "kubectl", *words[2:]
        elif words[0] == "docker" and "dovetail" in words:
            yield words[words.index("dovetail") + 1 :]


SHOWN = sorted({one for file in pages() for one in shown_in(file.name, file.read_text())})


def understood(words: tuple[str, ...]) -> None:
    """Parse them as the program does, and run nothing. Raises what it would say."""
    program = commands
    if words[0] == "kubectl":
        program, words = plugin, tuple(options_first(words[1:]))
    command: Any = typer.main.get_command(program)
    context = command.make_context("dovetail", list(words))
    while hasattr(context.command, "resolve_command"):
        left = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, left)
        context = command.make_context(name, rest, parent=context)


@pytest.mark.slow
@pytest.mark.parametrize("one", SHOWN, ids=lambda one: f"{one.document}: {' '.join(one.words)}")
def test_a_command_in_the_documents_exists(one: Shown) -> None:
    if one.words[0] in OF_TYPER:  # it acts while it is parsed, and would write to the user's shell
        return
    allowed = () if one.whole else ("MissingParameter", "NoArgsIsHelpError", "BadOptionUsage")
    try:
        understood(one.words)
    except Exception as error:  # noqa: BLE001 - click's own classes have no public name in typer
        if type(error).__name__ not in allowed:
            pytest.fail(f"{one.document}: dovetail {' '.join(one.words)}: {error!r} {error}")


def test_the_documents_are_read_at_all() -> None:
    assert len(SHOWN) > 120
    assert {words[0] for _, words, _ in SHOWN} >= {"demo", "simulate", "validate", "convert"}


@pytest.mark.parametrize(
    "words", [("vallidate", "-f", "x"), ("validate", "--file", "x"), ("cloud", "rain"), ("up", "x")]
)
def test_what_does_not_exist_is_found(words: tuple[str, ...]) -> None:
    with pytest.raises(Exception, match=r"(?i)no such|unexpected"):
        understood(words)
