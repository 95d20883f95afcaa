"""Scripts in Lua 5.1, as EVAL runs them.

Only the functions that the services' scripts use are there: ``redis.call``, ``redis.pcall``, ``cmsgpack`` and Lua's own
without files, processes and chance. A script is compiled once for as long as the server remembers it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from lupa import lua51

from simulation.servers.redis import message_pack
from simulation.servers.redis.resp import CommandError, Reply, Status

_PRELUDE = b"""
local call, pack, unpack_message = ...
local load, error, getinfo, type = loadstring, error, debug.getinfo, type
local function raised(text)
  -- Level 3 is the script's own line: this function, redis.call, the script.
  local info = getinfo(3, 'l')
  error({err = text, line = info and info.currentline or 0}, 0)
end
redis = {}
function redis.call(...)
  local failed, value = call(...)
  if failed then raised(failed) end
  return value
end
function redis.pcall(...)
  local failed, value = call(...)
  if failed then return {err = failed} end
  return value
end
function redis.error_reply(text) return {err = text} end
function redis.status_reply(text) return {ok = text} end
redis.sha1hex = nil
cmsgpack = {}
function cmsgpack.pack(value)
  local failed, packed = pack(value)
  if failed then raised(failed) end
  return packed
end
function cmsgpack.unpack(text)
  local failed, value = unpack_message(text)
  if failed then raised(failed) end
  return value
end
local function explained(problem)
  if type(problem) == 'table' then return problem end
  local line = tonumber(string.match(problem, ':(%d+):')) or 0
  return {err = 'ERR ' .. problem, line = line}
end
local xpcall = xpcall
local function compile(body) return load(body, '@user_script') end
local function run(script)
  local ok, value = xpcall(script, explained)
  if ok then return nil, value end
  return value
end
python, io, os, package, require, dofile, loadfile, debug = nil, nil, nil, nil, nil, nil, nil, nil
math.random, math.randomseed, collectgarbage, newproxy = nil, nil, nil, nil
return compile, run
"""


class Scripts:
    """The scripts that the server knows. ``call`` executes one command and raises CommandError.

    Redis 6.2 puts the error of a command behind one of its own, so that its code is always ERR.
    """

    def __init__(self, call: Callable[[list[bytes]], Reply], *, is_redis_6: bool) -> None:
        self._command = call
        self._is_redis_6 = is_redis_6
        self._lua = lua51.LuaRuntime(
            encoding=None, unpack_returned_tuples=True, register_eval=False, register_builtins=False
        )
        self._globals = self._lua.globals()
        self._table = self._lua.table_from
        self._is_table = type(self._lua.table())
        self._compile, self._run = self._lua.execute(_PRELUDE, self._call, self._pack, self._unpack)
        self._known: dict[bytes, Any] = {}

    def forget(self) -> None:
        """Forget all scripts, as a restart does."""
        self._known.clear()

    def known(self, digest: bytes) -> bool:
        """Whether EVALSHA finds the script."""
        return digest.lower() in self._known

    def load(self, body: bytes) -> bytes:
        """Compile a script; returns its digest. Raises CommandError."""
        digest = hashlib.sha1(body, usedforsecurity=False).hexdigest().encode()
        if digest not in self._known:
            compiled = self._compile(body)
            if isinstance(compiled, tuple):
                raise CommandError(b"ERR Error compiling script (new function): " + compiled[1])
            self._known[digest] = compiled
        return digest

    def run(self, digest: bytes, keys: list[bytes], arguments: list[bytes]) -> Reply:
        """Run a known script. Raises CommandError."""
        self._globals[b"KEYS"] = self._table(keys)
        self._globals[b"ARGV"] = self._table(arguments)
        found = self._run(self._known[digest.lower()])
        problem, value = found if isinstance(found, tuple) else (found, None)
        if problem is not None:
            raise self._failed(digest.lower(), problem[b"err"], problem[b"line"])
        return self._reply(value)

    def _failed(self, digest: bytes, text: bytes, line: int) -> CommandError:
        if self._is_redis_6:
            place = b"ERR Error running script (call to f_%b): @user_script:%d: " % (digest, line)
            return CommandError(place + text)
        return CommandError(text + b" script: %b, on @user_script:%d." % (digest, line))

    def _call(self, *words: Any) -> tuple[bytes | None, Any]:
        """``redis.call``: the error's text, or None and the reply."""
        try:
            reply = self._command([_word(word) for word in words])
        except CommandError as error:
            return error.text, None
        return None, self._value(reply)

    def _value(self, reply: Reply) -> Any:
        """A reply as a value of Lua."""
        kind = type(reply)
        if kind is bytes or kind is int:
            return reply
        if kind is list:
            return self._table([self._value(one) for one in reply])
        if kind is Status:
            return self._table({b"ok": bytes(reply)})
        if kind is CommandError:
            return self._table({b"err": reply.text})
        return False

    def _reply(self, value: Any) -> Reply:
        """A value of Lua as a reply."""
        if type(value) is self._is_table:
            return self._array(value)
        if value is True:
            return 1
        if value is None or value is False:
            return None
        return int(value) if isinstance(value, float) else value

    def _array(self, table: Any) -> Reply:
        if (text := table[b"err"]) is not None:
            return CommandError(text)
        if (text := table[b"ok"]) is not None:
            return Status(text)
        items: list[Reply] = []
        while (item := table[len(items) + 1]) is not None:
            items.append(self._reply(item))
        return items

    def _pack(self, value: Any) -> tuple[bytes | None, bytes | None]:
        try:
            return None, message_pack.pack([value[at + 1] for at in range(len(value))])
        except (TypeError, ValueError) as error:
            return str(error).encode(), None

    def _unpack(self, text: bytes) -> tuple[bytes | None, Any]:
        try:
            return None, self._table(message_pack.unpack(text))
        except ValueError as error:
            return str(error).encode(), None


def _word(value: Any) -> bytes:
    """An argument of ``redis.call``. Raises CommandError."""
    if type(value) is bytes:
        return value
    if type(value) is int:
        return b"%d" % value if abs(value) < 10**17 else b"%.17g" % value
    if type(value) is float:
        return b"%.17g" % value
    raise CommandError("ERR Lua redis lib command arguments must be strings or integers")
