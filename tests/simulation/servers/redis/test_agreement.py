"""The server in memory gives the replies of a real one, byte for byte, and holds the same at the end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from shared.redis import rights
from simulation.servers.redis.registry import COMMANDS
from tests.simulation.servers.redis.conftest import fresh
from tests.support.redis.agreement import Agreement, Command
from tests.support.redis.commands import COMMANDS as ANY_COMMANDS
from tests.support.redis.commands import FINAL, SCRIPTED, WELL_FORMED

OWN_WORDS = {"multi", "exec", "discard", "eval", "evalsha", "script|exists", "script|load"}
"""Commands that are not in the table, because they run other commands."""


without_shrinking = settings(
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""``fresh`` empties both servers for each example. Shrinking would take minutes, and the difference says enough."""


def agree(both: Agreement, commands: Sequence[Command]) -> None:
    """Send the commands to both servers and compare the replies."""
    for one in commands:
        found = both.check(one)
        if found:
            pytest.fail(found)


def test_every_command_that_a_service_may_send_is_there() -> None:
    users = (*rights.SERVICES, rights.AGENT, rights.OPERATOR)
    needed = {word for user in users for right in rights.rights_of(user) for word in right.commands}
    assert needed - set(COMMANDS) - OWN_WORDS == set()


@pytest.mark.slow
@without_shrinking
@given(st.data())
def test_commands_have_equal_replies(
    agreement: Agreement, version: tuple[int, ...], data: st.DataObject
) -> None:
    # Redis 6.2 queues malformed subcommands in a transaction and 7.0 refuses them: no client of ours sends any.
    words = ANY_COMMANDS if version >= (7,) else WELL_FORMED
    commands = data.draw(st.lists(words, min_size=20, max_size=80))
    both = fresh(agreement.left, version)  # type: ignore[arg-type]
    agree(both, [*commands, (b"EXEC",), *FINAL])


@pytest.mark.slow
@without_shrinking
@given(commands=st.lists(SCRIPTED, min_size=10, max_size=40))
def test_scripts_of_the_services_have_equal_replies(
    agreement: Agreement, version: tuple[int, ...], commands: list[Command]
) -> None:
    both = fresh(agreement.left, version)  # type: ignore[arg-type]
    agree(both, [*commands, *FINAL])


LUA = {
    "numbers are cut to whole ones": b"return {1, 2.9, -2.9, 1e15}",
    "nil ends an array": b"return {1, nil, 3}",
    "false is null and true is one": b"return {false, true, {false}}",
    "nothing is null": b"local x = 1",
    "a status": b"return redis.status_reply('FINE')",
    "an error as the result": b"return redis.error_reply('ERR my own')",
    "the status of SET": b"return redis.call('SET', KEYS[1], 'x')",
    "an absent value": b"return {redis.call('GET', 'absent')}",
    "a fraction as an argument": b"redis.call('SET', KEYS[1], 0.1) return redis.call('GET', KEYS[1])",
    "a large number as an argument": b"redis.call('SET', KEYS[1], 2^53) return redis.call('GET', KEYS[1])",
    "an error of a command": b"\nreturn redis.call('HLEN', KEYS[2])",
    "a protected error": b"return redis.pcall('HLEN', KEYS[2]).err",
    "a protected error in a table": b"return {redis.pcall('HLEN', KEYS[2])}",
    "an unknown command": b"return redis.call('NONSENSE')",
    "too few words": b"return redis.call('GET')",
    "a table as an argument": b"return redis.call('SET', KEYS[1], {})",
    "a fault of the script": b"local x\nreturn x.y",
    "a fault in words": b"error('words')",
    "no Lua": b"return return",
    "packed strings": b"return cmsgpack.pack({'', 'a', string.rep('b', 31), string.rep('c', 32)})",
    "long packed strings": b"return cmsgpack.pack({string.rep('d', 255), string.rep('e', 256)})",
    "many packed strings": b"local t = {} for i = 1, 20 do t[i] = 'x' end return cmsgpack.pack(t)",
    "unpacked": b"return cmsgpack.unpack(cmsgpack.pack({'a', 'b\\0\\255', string.rep('c', 70000)}))",
    "a blocking read does not block": b"return redis.call('XREAD', 'BLOCK', 0, 'STREAMS', KEYS[3], '$')",
}


@pytest.mark.parametrize("script", LUA.values(), ids=LUA)
def test_values_of_lua_have_equal_replies(agreement: Agreement, script: bytes) -> None:
    commands: list[Command] = [
        (b"SET", b"s2", b"no hash"),
        (b"EVAL", script, b"3", b"s1", b"s2", b"x1"),
    ]
    agree(agreement, [*commands, (b"GET", b"s1")])


def test_scripts_are_known_by_their_digest(agreement: Agreement) -> None:
    body, digest = b"return ARGV[1]", b"098e0f0d1448c0a81dafe820f66d460eb09263da"
    commands: list[Command] = [
        (b"EVALSHA", digest, b"0", b"x"),
        (b"SCRIPT", b"LOAD", body),
        (b"SCRIPT", b"EXISTS", digest, b"0" * 40),
        (b"EVALSHA", digest, b"0", b"x"),
        (b"EVALSHA", digest.upper(), b"0", b"x"),
        (b"EVAL", body, b"1", b"x"),
        (b"EVAL", body, b"2", b"x"),
        (b"EVAL", body, b"-1", b"x"),
        (b"EVAL", body, b"many", b"x"),
    ]
    agree(agreement, commands)


@pytest.mark.slow
@without_shrinking
@given(
    before=st.lists(WELL_FORMED, max_size=20),
    commands=st.lists(st.one_of(WELL_FORMED, SCRIPTED), min_size=10, max_size=40),
)
def test_a_full_server_refuses_the_same_commands(
    agreement: Agreement,
    version: tuple[int, ...],
    before: list[Command],
    commands: list[Command],
) -> None:
    both = fresh(agreement.left, version)  # type: ignore[arg-type]
    agree(both, before)
    _fill(both, True)
    try:
        agree(both, commands)
    finally:
        _fill(both, False)
    agree(both, [(b"EXEC",), *FINAL])


def _fill(both: Agreement, full: bool) -> None:
    both.left.ask(b"DISCARD")
    both.right.ask(b"DISCARD")
    both.left.ask(b"CONFIG", b"SET", b"maxmemory", b"1" if full else b"0")
    both.right.server.set_out_of_memory(full)  # type: ignore[attr-defined]
