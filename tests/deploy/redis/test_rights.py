"""Each service has the rights in Redis that its work needs, and no others; nobody else has any."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from services.console.reports.queues import queues
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError, DovetailError, NotFound, Unauthorized
from shared.redis import streams
from shared.redis.bus import connect
from shared.redis.bus.connection import call
from shared.redis.mirror import Change, MirrorWriter
from shared.redis.rights import AGENT, CONSOLE, OPERATOR, PROBE, SERVICES, USERS, acl_file
from tests.support.redis.guarded import ADMIN, CLUSTER, PASSWORDS, GuardedRedis
from tests.support.redis.work import bus_at, work_of

PROJECT = Path(__file__).resolve().parents[3]
PREFIX = f"dovetail:{{{CLUSTER}}}:"
READERS = ("scheduler", "interruption", CONSOLE)
NO_RIGHT = r"(?i)no permissions|acl failure|can't run this command|can't access"
"""What Redis says of a command, and of one in a script."""


async def run_as(guarded: GuardedRedis, user: str, *command: str) -> Any:
    client = connect(guarded.url(user))
    try:
        return await call(client, "try", *command)
    finally:
        await client.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("service", [*SERVICES, AGENT])
async def test_a_service_may_do_its_work(guarded: GuardedRedis, service: str) -> None:
    """Redis itself says that nothing was refused, whatever the service made of it."""
    await work_of("watcher", guarded.url("admin"))  # a mirror to read
    await run_as(guarded, "admin", "ACL", "LOG", "RESET")
    await work_of(service, guarded.url(service))
    assert await guarded.refused() == []


@pytest.mark.slow
async def test_the_console_may_show_the_queues(guarded: GuardedRedis) -> None:
    await work_of("launcher", guarded.url("admin"))
    async with bus_at(guarded.url(CONSOLE)) as bus:
        found = await queues(bus, SystemClock())
    assert found["problem"] == ""
    assert {one["stream"] for one in found["queues"]} == {*streams.GROUPS}


@pytest.mark.parametrize("service", sorted({*USERS} - {"watcher", OPERATOR}))
@pytest.mark.parametrize(
    "command",
    [
        ("HSET", "mirror:pods", "default/forged", "{}"),
        ("DEL", "mirror:pods"),
        ("SET", "mirror:epoch", "mine"),
        ("XADD", streams.CLUSTER, "*", "op", "reset"),
        ("UNLINK", "mirror:complete"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
async def test_only_the_watcher_may_write_the_mirror(
    guarded: GuardedRedis, service: str, command: tuple[str, ...]
) -> None:
    reads = service in READERS or (service == "terminator" and command[1] == streams.CLUSTER)
    if reads and command[0] != "HSET" and not guarded.selectors:
        pytest.skip("Redis 6.2 cannot tell who reads from who writes")
    name, key, *rest = command
    with pytest.raises(Unauthorized):
        await run_as(guarded, service, name, PREFIX + key, *rest)


@pytest.mark.parametrize("service", sorted({*USERS} - {"watcher", OPERATOR}))
async def test_nor_may_a_script_of_theirs(guarded: GuardedRedis, service: str) -> None:
    """What a script does is checked, and which keys it names."""
    forged = f"return redis.call('HSET', '{PREFIX}mirror:pods', 'default/forged', '{{}}')"
    with pytest.raises(DovetailError, match=NO_RIGHT):
        await run_as(guarded, service, "EVAL", forged, "0")
    async with bus_at(guarded.url(service)) as bus:
        forger = MirrorWriter(bus.redis, PREFIX, "forged")
        with pytest.raises(DovetailError, match=NO_RIGHT):
            await forger.begin({"pods": {"default/forged": b"{}"}})


@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    "command",
    [
        ("FLUSHALL",),
        ("CONFIG", "SET", "dir", "/tmp"),
        ("KEYS", "*"),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("ACL", "SETUSER", "default", "on", "nopass"),
        ("SAVE",),
        ("SHUTDOWN",),
        ("MONITOR",),
        ("GET", "dovetail:{another}:catalogue"),
        ("SET", "dovetail:{another}:catalogue", "x"),
        ("SCRIPT", "FLUSH"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
async def test_nobody_may_administer_or_reach_another_cluster(
    guarded: GuardedRedis, user: str, command: tuple[str, ...]
) -> None:
    with pytest.raises(Unauthorized):
        await run_as(guarded, user, *command)


@pytest.mark.parametrize(
    ("service", "command"),
    [
        ("terminator", ("SET", "catalogue", "x")),
        ("terminator", ("XADD", streams.LAUNCHES, "*", "a", "b")),
        ("terminator", ("GET", "catalogue")),
        ("launcher", ("XADD", streams.PODS, "*", "a", "b")),
        ("launcher", ("HGETALL", "mirror:pods")),
        ("watcher", ("SET", "catalogue", "x")),
        ("watcher", ("XREADGROUP", "GROUP", "g", "c", "STREAMS", streams.LAUNCHES, ">")),
        ("watcher", ("XACK", streams.LAUNCHES, "launcher", "1-1")),
        ("interruption", ("XADD", streams.LAUNCHES, "*", "a", "b")),
        ("interruption", ("ZADD", "disrupted", "1", "a")),
        (AGENT, ("HGETALL", "mirror:pods")),
        (AGENT, ("XADD", streams.LAUNCHES, "*", "a", "b")),
        ("scheduler", ("SET", "launch-backoff:NodePool/a", "x")),
        ("scheduler", ("XADD", streams.INTERRUPTIONS + ":dead:names", "*", "a", "b")),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else value,
)
async def test_what_is_another_s_is_refused(
    guarded: GuardedRedis, service: str, command: tuple[str, ...]
) -> None:
    named = {*streams.PUBLISHERS, "catalogue", "disrupted", "mirror:pods"}
    words = [PREFIX + word if word in named or ":" in word else word for word in command]
    if service == "scheduler" and command[0] == "XADD" and not guarded.selectors:
        pytest.skip("on Redis 6.2 every command goes with every key of a user")
    with pytest.raises(Unauthorized):
        await run_as(guarded, service, *words)


async def test_whoever_has_no_password_can_do_nothing(guarded: GuardedRedis) -> None:
    """20 forged pods and one reset on the stream once bought 304 vCPU."""
    for url in (guarded.server.url, guarded.server.url_of("scheduler", "wrong")):
        client = connect(url)
        for command in (
            ("HSET", PREFIX + "mirror:pods", "default/forged", "{}"),
            ("XADD", PREFIX + streams.CLUSTER, "*", "op", "reset"),
            ("PING",),
        ):
            with pytest.raises(Unauthorized):
                await call(client, "forge", *command)
        await client.aclose()


async def test_the_probe_may_say_ping_alone(guarded: GuardedRedis) -> None:
    client = connect(guarded.server.url_of(PROBE, "none"))
    try:
        assert await call(client, "probe", "PING") == b"PONG"
        with pytest.raises(Unauthorized):
            await call(client, "look", "GET", PREFIX + "catalogue")
    finally:
        await client.aclose()


async def test_the_operator_looks_at_everything_and_puts_dead_letters_back(
    guarded: GuardedRedis,
) -> None:
    await work_of("launcher", guarded.url("admin"))
    async with bus_at(guarded.url(OPERATOR)) as bus:
        for stream in streams.PUBLISHERS:
            await bus.depth(stream)
        letters = bus.dead_letters(streams.LAUNCHES)
        await letters.replay((await letters.newest(1))[0].id)
        with pytest.raises(NotFound):  # not Unauthorized
            await letters.drop("1-1")
    if guarded.selectors:
        with pytest.raises(Unauthorized):
            await run_as(guarded, OPERATOR, "XADD", PREFIX + streams.CLUSTER, "*", "op", "reset")
    with pytest.raises(Unauthorized):
        await run_as(guarded, OPERATOR, "HSET", PREFIX + "mirror:pods", "a", "b")


async def test_a_watcher_goes_on_writing_after_an_attempt(guarded: GuardedRedis) -> None:
    client = connect(guarded.url("watcher"))
    try:
        writer = MirrorWriter(client, PREFIX, "epoch")
        await writer.begin({"pods": {"a/b": b"1"}})
        with pytest.raises(Unauthorized):
            await run_as(guarded, "launcher", "DEL", PREFIX + "mirror:pods")
        assert await writer.apply([Change("pods", "a/c", b"2")]) > 0
    finally:
        await client.aclose()


def test_the_table_names_the_streams_that_each_service_s_code_names() -> None:
    """A service that speaks on another stream needs a row here first."""
    constants = {name: getattr(streams, name) for name in vars(streams) if name.isupper()}
    for service in SERVICES:
        sources = (PROJECT / "services" / service).rglob("*.py")
        text = "\n".join(path.read_text() for path in sources)
        named = {constants[name] for name in re.findall(r"\bstreams\.([A-Z]+)\b", text)}
        allowed = {
            s for s, who in (*streams.PUBLISHERS.items(), *streams.GROUPS.items()) if service in who
        }
        assert named == allowed, service


def test_passwords_are_not_in_the_file() -> None:
    text = acl_file(CLUSTER, PASSWORDS)
    assert not [user for user, password in PASSWORDS.items() if password in text]
    assert ADMIN[1] not in text
    assert text.startswith("user default off ")


def test_a_cluster_s_name_is_never_a_pattern() -> None:
    for name in ("a*b", "a?b", "b[c]", "a b"):
        with pytest.raises(ConfigurationError, match="CLUSTER_NAME"):
            acl_file(name, {"watcher": "x"})
