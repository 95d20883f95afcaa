"""``python -m release.commands_page``: writes docs/commands.md from the ``dovetail`` program itself (``make crds``).

Needs the extra `local`, because some commands import it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from cli.main import COMMANDS, HELP, commands

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
INTRODUCTION = f"""# Commands

<!-- blocks: no: examples of the help texts -->

`dovetail`: {HELP[0].lower()}{HELP[1:]} `make crds` writes this page from the program, whose `--help` says the same.

| command | what it does |
|---|---|
"""


def page() -> str:
    """The whole page."""
    rows = [f"| [`{name}`](#dovetail-{name}) | {one.summary} |" for name, one in COMMANDS.items()]
    root: Any = typer.main.get_command(commands)
    context = root.make_context("dovetail", ["help"], resilient_parsing=True)
    parts = [_of(*_loaded(context, name)) for name in COMMANDS]
    return INTRODUCTION + "\n".join(rows) + "\n\n" + "\n".join(parts)


def _loaded(parent: Any, name: str) -> tuple[Any, Any]:
    """A command of the program, imported, with its context."""
    _, command, _ = parent.command.resolve_command(parent, [name])
    context = command.make_context(name, ["--help"], parent=parent, resilient_parsing=True)
    return context.command, context


def _of(command: Any, context: Any, level: int = 2) -> str:
    """Heading, text and options of a command, and those of the commands of a group below it."""
    below = getattr(command, "commands", {})
    parts = [f"{'#' * level} {context.command_path}", "", *_text(command.help or "")]
    parts += _options(command, context)
    for name in below:
        parts += [_of(*_loaded(context, name), level + 1)]
    return "\n".join(parts)


def _text(text: str) -> Iterator[str]:
    """The paragraphs of a help text; the lines below "Examples:" as commands."""
    sentences, _, examples = textwrap.dedent(text).partition("Examples:")
    for paragraph in sentences.replace("\b", "").strip().split("\n\n"):
        yield from textwrap.wrap(
            " ".join(paragraph.split()), 118, break_long_words=False, break_on_hyphens=False
        )
        yield ""
    lines = [line.strip() for line in examples.replace("\b", "").splitlines() if line.strip()]
    commands_shown, rest = _split(lines)
    if commands_shown:
        yield from ("```sh", *commands_shown, "```", "")
    if rest:
        # A sentence, and what it shows.
        yield from (rest[0], "", *(["```text", *rest[1:], "```", ""] if rest[1:] else []))


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    """Lines that are commands, and what stands below them."""
    for number, line in enumerate(lines):
        if not re.search(r"\bdovetail\b|^kubectl ", line):
            return lines[:number], lines[number:]
    return lines, []


def _options(command: Any, context: Any) -> Iterator[str]:
    """A table of arguments and options, with their defaults."""
    records = [one for parameter in command.params if (one := _record(parameter, context))]
    if records:
        yield from ("| argument or option | meaning |", "|---|---|")
        for names, meaning in records:
            words = meaning.replace("|", "\\|").replace("<", "&lt;")
            yield f"| `{names.replace('|', '/')}` | {' '.join(words.split())} |"
        yield ""


def _record(parameter: Any, context: Any) -> tuple[str, str] | None:
    """Names and meaning as ``--help`` has them; None for ``--help`` itself and for what it hides."""
    if parameter.name == "help" or getattr(parameter, "hidden", False):
        return None
    shown = parameter.get_help_record(context)
    if shown is None:
        return None
    names, meaning = shown
    return str(names), str(meaning)


if __name__ == "__main__":
    PAGE.write_text(page())
