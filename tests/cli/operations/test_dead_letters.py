"""``dovetail dead-letters`` on a real Redis: what a service gave up on is listed, shown, sent again or dropped."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.main import commands
from services.interruption.sources.sqs import keeping
from shared.concurrency.clock import SystemClock
from shared.redis import streams
from shared.redis.bus import BadMessage, Bus, ConsumerSettings, Envelope
from shared.redis.bus.attempt import AttemptLimits
from shared.redis.bus.connection import call
from shared.redis.messages import LaunchMachine, encode
from tests.support.redis.fixture import redis_server
from tests.support.redis.server import RedisServer
from tests.support.waiting import wait_until

__all__ = ["redis_server"]

CLUSTER = "letters"
QUICK = ConsumerSettings(
    attempts=AttemptLimits(), block_milliseconds=50, reap_seconds=0.05, move_seconds=0.02
)
Act = Callable[[Bus], Coroutine[Any, Any, Any]]


@pytest.fixture
def url(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An empty Redis that the variables of this shell name."""
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    monkeypatch.setenv("CLUSTER_NAME", CLUSTER)
    monkeypatch.setenv("DOVETAIL_DIRECTORY", str(tmp_path))
    play(redis_server.url, lambda bus: call(bus.redis, "empty", "FLUSHALL"))
    return redis_server.url


def play(url: str, act: Act) -> Any:
    """On a bus of the test's own."""

    async def run() -> Any:
        bus = Bus(url, CLUSTER, clock=SystemClock(), random=random.Random(1))
        try:
            return await act(bus)
        finally:
            await bus.close()

    return asyncio.run(run())


def dovetail(*words: str) -> Result:
    return CliRunner().invoke(commands, ["dead-letters", *words])


async def consume(bus: Bus, names: tuple[str, ...], done: list[str], *, refuse: bool) -> None:
    """The launcher's consumer, until each of ``names`` is handled or buried."""

    async def handle(envelope: Envelope) -> None:
        done.append(envelope.key)
        if refuse:
            raise BadMessage("no such field")

    consumer = bus.consumer(
        stream=streams.LAUNCHES, group="launcher", name="a", handler=handle, settings=QUICK
    )
    parked = bus.dead_letters(streams.LAUNCHES)
    expected = await parked.count() + len(names)

    async def all_dead() -> bool:
        return await parked.count() == expected

    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(consumer.run(stop))
        await wait_until(lambda: set(names) <= set(done), "the messages are handled")
        if refuse:
            await wait_until(all_dead, "the messages are dead letters")
        stop.set()


def bury(url: str, *names: str) -> None:
    """Launch messages that the launcher cannot handle."""

    async def act(bus: Bus) -> None:
        for name in names:
            message = encode(LaunchMachine(machine=name), cause=name, clock=SystemClock())
            await bus.publish(streams.LAUNCHES, message)
        await consume(bus, names, [], refuse=True)

    play(url, act)


def bury_notice(url: str, body: bytes = b"{") -> None:
    """An SQS message that the interruption service cannot read."""

    async def act(bus: Bus) -> None:
        await keeping(bus.dead_letters(streams.INTERRUPTIONS))("0f1e", body, BadMessage("not JSON"))

    play(url, act)


def ids(text: str) -> list[str]:
    return re.findall(r"\b\d{13}-\d+\b", text)


def test_without_dead_letters_it_says_so(url: str) -> None:
    result = dovetail("list")
    assert (result.exit_code, result.output) == (0, "no dead letters\n")


def test_every_stream_is_listed_with_what_failed_and_why(url: str) -> None:
    bury(url, "NodeClaim/a")
    bury_notice(url)
    _, *rows = dovetail("list").output.splitlines()
    launch, notice = (re.split(r"  +", row.strip()) for row in rows)
    assert [launch[0], *launch[3:]] == [
        "launches", "launcher", "1", "LaunchMachine NodeClaim/a", "BadMessage: no such field",
    ]  # fmt: skip
    assert [notice[0], *notice[3:]] == [
        "interruptions", "interruption", "1", "unreadable", "BadMessage: not JSON",
    ]  # fmt: skip
    assert len(dovetail("list", "launches").output.splitlines()) == 2


def test_a_program_reads_the_list_as_json_with_whole_errors(url: str) -> None:
    assert json.loads(dovetail("list", "-o", "json").output) == {"deadLetters": [], "more": 0}
    bury(url, "NodeClaim/a", "NodeClaim/b")
    bury_notice(url)
    found = json.loads(dovetail("list", "-o", "json", "--limit", "1").output)
    launch, notice = found["deadLetters"]
    assert found["more"] == 1
    assert launch.pop("id") in ids(dovetail("list").output)
    assert datetime.fromisoformat(launch.pop("at")).tzinfo is not None
    assert launch == {
        "stream": "launches", "group": "launcher", "deliveries": 1,
        "message": "LaunchMachine NodeClaim/b", "error": "BadMessage: no such field",
    }  # fmt: skip
    assert (notice["stream"], notice["message"]) == ("interruptions", "")


def test_one_letter_is_shown_whole(url: str) -> None:
    bury(url, "NodeClaim/a")
    (letter,) = ids(dovetail("list").output)
    shown = dovetail("show", "launches", letter).output
    for part in (
        "LaunchMachine",
        "NodeClaim/a",
        "launcher",
        "no such field",
        '{"machine":"NodeClaim/a"}',
    ):
        assert part in shown


def test_control_characters_of_a_message_do_not_reach_the_terminal(url: str) -> None:
    """Anybody who may write to the SQS queue writes this text."""
    bury_notice(url, b"\x1b[2J{")
    (letter,) = ids(dovetail("list").output)
    shown = dovetail("show", "interruptions", letter).output
    assert "\x1b" not in shown
    assert "\\x1b[2J{" in shown


def test_a_replayed_letter_is_handled_and_gone(url: str) -> None:
    """End to end: the consumer that gave up on it handles it at the second try."""
    bury(url, "NodeClaim/a")
    (letter,) = ids(dovetail("list").output)
    assert dovetail("replay", "launches", letter).output == f"sent again: launches {letter}\n"
    done: list[str] = []
    play(url, lambda bus: consume(bus, ("NodeClaim/a",), done, refuse=False))
    assert done == ["NodeClaim/a"]
    assert dovetail("list").output == "no dead letters\n"


def test_all_letters_of_a_stream_are_replayed_oldest_first(url: str) -> None:
    bury(url, "NodeClaim/a", "NodeClaim/b")
    assert dovetail("replay", "launches", "--all").exit_code == 0
    done: list[str] = []
    play(url, lambda bus: consume(bus, ("NodeClaim/a", "NodeClaim/b"), done, refuse=False))
    assert sorted(done) == ["NodeClaim/a", "NodeClaim/b"]
    assert dovetail("list").output == "no dead letters\n"


def test_what_is_no_message_cannot_be_replayed_and_the_others_are(url: str) -> None:
    bury(url, "NodeClaim/a")
    bury_notice(url)
    (notice,) = ids(dovetail("list", "interruptions").output)
    result = dovetail("replay", "interruptions", notice)
    assert result.exit_code == 1
    assert "is not a message of Dovetail" in result.output
    assert ids(dovetail("list", "interruptions").output) == [notice]


def test_a_dropped_letter_is_gone_and_its_neighbour_stays(url: str) -> None:
    bury(url, "NodeClaim/a", "NodeClaim/b")
    first, second = ids(dovetail("list").output)
    assert dovetail("drop", "launches", first).output == f"dropped: launches {first}\n"
    assert ids(dovetail("list").output) == [second]
    assert dovetail("drop", "launches", "--all").exit_code == 0
    assert dovetail("list").output == "no dead letters\n"
    assert dovetail("drop", "launches", "--all").output == "no dead letters in launches\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("show", "launches", "1-1"), "no dead letter 1-1 in launches"),
        (("drop", "launches", "1-1"), "no dead letter 1-1 in launches"),
        (("replay", "launches", "1-1"), "no dead letter 1-1 in launches"),
        (("show", "launches", "first"), "'first' is not the id of a dead letter"),
        (("show", "launches", f"{2**64}-0"), "is not the id of a dead letter"),
        (("list", "launch"), "launch is not a stream; the streams are pods, launches, machines"),
        (("drop", "launches"), "give the ids of dead letters of launches, or --all"),
        (("drop", "lanches"), "lanches is not a stream"),
        (("drop", "launches", "1-1", "--all"), "give ids or --all, not both"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    url: str, words: tuple[str, ...], text: str
) -> None:
    result = dovetail(*words)
    said = result.output + str(result.exception or "")
    assert result.exit_code != 0
    assert text in said


def test_an_entry_of_another_form_does_not_hide_the_others(url: str) -> None:
    bury(url, "NodeClaim/a")
    play(
        url,
        lambda bus: call(
            bus.redis, "forge", "XADD", f"{bus.prefix}launches:dead", "*", "junk", "1"
        ),
    )
    assert len(ids(dovetail("list").output)) == 2


def test_no_more_than_the_limit_are_listed(url: str) -> None:
    bury(url, "NodeClaim/a", "NodeClaim/b", "NodeClaim/c")
    output = dovetail("list", "--limit", "2").output
    assert len(ids(output)) == 2
    assert "1 more" in output


def test_a_redis_that_does_not_answer_is_named_with_its_setting_and_without_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:canary@127.0.0.1:1/0")
    result = dovetail("list")
    assert result.exit_code != 0
    text = str(result.exception)
    assert text.endswith("; start Redis at redis://127.0.0.1:1/0, or correct REDIS_URL")
    assert "canary" not in text
