"""Safe trimming: only entries that every group has read and acknowledged are removed (F11).

MAXLEN alone removed undelivered entries and left dangling ids in the pending lists (measured).
The groups of our own streams are known: while one of them is missing, nothing is removed. The cut of
a group is its first pending id, else its last delivered one; the stream is trimmed below the smallest
cut. A group without consumers stops the trimming: publishers then refuse new entries at the length
limit, with an error that names the stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import Redis

from shared.redis.bus.connection import redis_errors

SAFE_TRIM_FUNCTION = """
local function parse(id)
  local ms, seq = string.match(id, '(%d+)-(%d+)')
  return tonumber(ms), tonumber(seq)
end
local function before(a, b)
  local a_ms, a_seq = parse(a)
  local b_ms, b_seq = parse(b)
  return a_ms < b_ms or (a_ms == b_ms and a_seq < b_seq)
end
-- Returns the number of removed entries, or -1 when the stream has no group.
local function safe_trim(stream)
  if redis.call('EXISTS', stream) == 0 then return 0 end
  local cut = nil
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local info = {}
    for i = 1, #group, 2 do info[group[i]] = group[i + 1] end
    local pending = redis.call('XPENDING', stream, info['name'])
    local candidate = info['last-delivered-id']
    if pending[1] > 0 then candidate = pending[2] end
    if cut == nil or before(candidate, cut) then cut = candidate end
  end
  if cut == nil then return -1 end
  return redis.call('XTRIM', stream, 'MINID', '=', cut)
end
"""

_TRIM = (
    SAFE_TRIM_FUNCTION
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local present = {}
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  for i = 1, #group, 2 do
    if group[i] == 'name' then present[group[i + 1]] = true end
  end
end
for _, name in ipairs(ARGV) do
  if not present[name] then return 0 end
end
return math.max(safe_trim(KEYS[1]), 0)
"""
)


async def safe_trim(redis: Redis, stream_key: str, groups: Sequence[str] = ()) -> int:
    """Remove the entries that every group has acknowledged; returns how many. Raises TransientError.

    ``groups``: those that must exist. After Redis lost its data a group that is not created again yet has read nothing.
    """
    async with redis_errors("trim"):
        return int(await redis.register_script(_TRIM)(keys=[stream_key], args=[*groups]))
