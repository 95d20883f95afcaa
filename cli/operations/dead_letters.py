"""``dovetail dead-letters``: list, show, replay and drop the messages that a service could not handle.

A dead letter does not block work: the periodic resync of each service finds the object that the message named. The text
of a dead letter may come from any sender to the interruption queue, so control characters are escaped before printing.

Errors: Redis does not answer, or its user lacks a right (``docs/operating/security.md``). The message says which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated

import typer

from cli.kubectl import names
from cli.kubectl.addresses import IN_CLUSTER
from cli.operations.console_queues import Document, letters_of, read_console, texts_of
from cli.options import OutputOption, group
from cli.printing import print_line, print_table
from cli.stack.bus import connected_bus
from cli.stack.environment import StackOption, variables_of
from cli.stack.requests import is_in_cluster
from cli.text import escaped, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import rfc3339
from shared.errors import ConfigurationError, DovetailError
from shared.redis.bus import Bus, DeadLetter
from shared.redis.bus.dead_letters import DEAD_LIMIT, DeadLetters
from shared.redis.streams import GROUPS

CELL_LIMIT = 120
CONSOLE = "DOVETAIL_CONSOLE_URL"
LIST_LIMIT = 2 * DEAD_LIMIT
"""Redis trims a stream in whole nodes, so a stream may hold more dead letters than DEAD_LIMIT."""
NEEDS_REDIS = (
    "this needs Redis itself, since the console only reads: set REDIS_URL to that of the Secret "
    "dovetail-redis-operator with 127.0.0.1 as host, and CLUSTER_NAME; before it: "
    "kubectl port-forward -n dovetail deploy/dovetail-redis 6379"
)

dead_letters = group("Messages that no service could handle: list, show, replay, drop.")
StreamArgument = Annotated[
    str, typer.Argument(help="The stream, for example launches.", autocompletion=names.streams)
]
IdsArgument = Annotated[list[str] | None, typer.Argument(help="Ids as `list` shows them.")]
AllOption = Annotated[bool, typer.Option("--all", help="Every dead letter of the stream.")]


@dead_letters.command("list")
def list_letters(
    stream: Annotated[
        str | None, typer.Argument(help="Only this stream.", autocompletion=names.streams)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=LIST_LIMIT, help="Most rows per stream.")] = 50,
    output: OutputOption = "table",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """List the dead letters of all streams, oldest first.

    Examples:

      dovetail dead-letters list

      dovetail dead-letters list launches --limit 10
    """
    chosen = list(GROUPS) if stream is None else [_known(stream)]
    if console := _console_of(directory):
        found, more = letters_of(asyncio.run(read_console(console)), chosen, limit)
    else:
        found, more = asyncio.run(_read_letters(directory, chosen, limit))
    if output == "json":
        print_json({"deadLetters": list(map(_answer, found)), "more": more})
    else:
        _print(found, more)


def _answer(letter: Document) -> Document:
    """``message`` is empty where no service could read it."""
    fields = ("stream", "id", "group", "deliveries", "message", "error")
    return {**{name: letter[name] for name in fields}, "at": rfc3339(letter["at"])}


def _print(found: list[Document], more: int) -> None:
    if found:
        headings = ("stream", "id", "since", "given up by", "tries", "message", "error")
        print_table(headings, map(_row, found))
    else:
        print_line("no dead letters")
    if more:
        print_line(f"{more} more; raise --limit to see them")


def _row(letter: Document) -> tuple[str, ...]:
    message = letter["message"] or "unreadable"
    cells = (letter["group"], str(letter["deliveries"]), message, letter["error"])
    shown = (escaped(text)[:CELL_LIMIT] for text in cells)
    return (letter["stream"], letter["id"], rfc3339(letter["at"]), *shown)


@dead_letters.command()
def show(
    stream: StreamArgument,
    letter: Annotated[str, typer.Argument(help="An id as `list` shows it.")],
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Print all fields of one dead letter.

    Example:

      dovetail dead-letters show interruptions 1795488000000-0
    """
    if console := _console_of(directory):
        report = asyncio.run(read_console(console))
        texts = texts_of(report, _known(stream), _checked(letter))
    else:
        texts = asyncio.run(_read_texts(directory, _known(stream), _checked(letter)))
    for name, text in texts.items():
        print_line(escaped(f"{name}: {text}"))


async def _read_texts(directory: Path, stream: str, letter: str) -> dict[str, str]:
    found = await _read(directory, stream, letter)
    texts = {"id": found.id, "since": rfc3339(_since(found)), "given up by": found.group}
    texts |= {"tries": str(found.deliveries), "source": found.source, "error": found.error}
    for field, value in found.fields.items():
        texts[field.decode(errors="replace")] = value.decode(errors="replace")
    return texts


@dead_letters.command()
def replay(
    stream: StreamArgument,
    letters: IdsArgument = None,
    every: AllOption = False,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Send dead letters again to the service that could not handle them. Remove the cause of the failure first.

    Exit code 1: at least one could not be sent again; it stays. An unreadable message of the interruption queue did not
    come from Dovetail and cannot be replayed: correct its sender, and drop the dead letter.

    Examples:

      dovetail dead-letters replay launches 1795488000000-0

      dovetail dead-letters replay launches --all
    """
    asyncio.run(_each(directory, stream, letters, every, "sent again", DeadLetters.replay))


@dead_letters.command()
def drop(
    stream: StreamArgument,
    letters: IdsArgument = None,
    every: AllOption = False,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Remove dead letters permanently.

    Examples:

      dovetail dead-letters drop interruptions 1795488000000-0

      dovetail dead-letters drop interruptions --all
    """
    asyncio.run(_each(directory, stream, letters, every, "dropped", DeadLetters.drop))


async def _each(
    directory: Path,
    stream: str,
    ids: list[str] | None,
    every: bool,
    done: str,
    act: Callable[[DeadLetters, str], Awaitable[None]],
) -> None:
    """Call ``act`` for each dead letter. A failure is printed and does not stop the others; the exit code is then 1."""
    stream = _known(stream)
    if ids and every:
        raise ConfigurationError("give ids or --all, not both")
    if not ids and not every:
        raise ConfigurationError(
            f"give the ids of dead letters of {stream}, or --all; `dovetail dead-letters list` shows them"
        )
    chosen = [_checked(one) for one in ids or ()]
    failed = False
    async with _bus(directory) as bus:
        letters = bus.dead_letters(stream)
        chosen = chosen or [found.id for found in await _oldest_first(letters, LIST_LIMIT)]
        if not chosen:
            print_line(f"no dead letters in {stream}")
        for one in chosen:
            try:
                await act(letters, one)
                print_line(f"{done}: {stream} {one}")
            except DovetailError as error:
                failed = True
                typer.echo(error.message, err=True)
    if failed:
        raise typer.Exit(1)


def _console_of(directory: Path) -> str:
    """The address of the console in a cluster, when Redis is not named; otherwise empty."""
    variables = variables_of(directory)
    url = variables.get(CONSOLE, "")
    return url if is_in_cluster(url) and not variables.get("REDIS_URL") else ""


def _bus(directory: Path) -> AbstractAsyncContextManager[Bus]:
    """The bus of the installation. Raises ConfigurationError when REDIS_URL or CLUSTER_NAME is missing."""
    variables = variables_of(directory)
    url, cluster = variables.get("REDIS_URL"), variables.get("CLUSTER_NAME")
    if (not url or not cluster) and IN_CLUSTER in variables:
        raise ConfigurationError(NEEDS_REDIS)
    if not url or not cluster:
        raise ConfigurationError(
            "REDIS_URL and CLUSTER_NAME are not set; run `dovetail up --detach`, or name the "
            "operator's Redis (docs/operating/security.md)"
        )
    return connected_bus(url, cluster)


async def _read(directory: Path, stream: str, letter: str) -> DeadLetter:
    async with _bus(directory) as bus:
        return await bus.dead_letters(stream).get(letter)


async def _read_letters(
    directory: Path, chosen: list[str], limit: int
) -> tuple[list[Document], int]:
    """As ``letters_of``, from Redis."""
    found: list[Document] = []
    more = 0
    async with _bus(directory) as bus:
        for stream in chosen:
            letters = bus.dead_letters(stream)
            newest = await _oldest_first(letters, limit)
            more += max(0, await letters.count() - len(newest))
            found += [_document(stream, letter) for letter in newest]
    return found, more


async def _oldest_first(letters: DeadLetters, count: int) -> list[DeadLetter]:
    """The newest ``count`` dead letters, oldest first."""
    return (await letters.newest(count))[::-1]


def _document(stream: str, letter: DeadLetter) -> Document:
    """With the fields that the console has too."""
    envelope = letter.envelope
    message = "" if envelope is None else f"{envelope.type} {envelope.key}"
    return {
        "stream": stream,
        "id": letter.id,
        "at": _since(letter),
        "group": letter.group,
        "deliveries": letter.deliveries,
        "message": message,
        "error": letter.error,
    }


def _since(letter: DeadLetter) -> float:
    """The time of the dead letter, from its id, which Redis assigned. In seconds since the epoch."""
    return int(letter.id.partition("-")[0]) / 1000


def _known(stream: str) -> str:
    """The stream itself. Raises ConfigurationError for an unknown name."""
    if stream not in GROUPS:
        raise ConfigurationError(f"{stream} is not a stream; the streams are {', '.join(GROUPS)}")
    return stream


def _checked(letter: str) -> str:
    """The id itself. Raises ConfigurationError for a text that is not an id."""
    first, dash, second = letter.partition("-")
    if not (dash and _is_part(first) and _is_part(second)):
        raise ConfigurationError(
            f"{letter!r} is not the id of a dead letter; `dovetail dead-letters list` prints the ids"
        )
    return letter


def _is_part(text: str) -> bool:
    """Whether Redis takes it as one of the two numbers of an id."""
    return text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) < 2**64
