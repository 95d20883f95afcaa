"""The writer's Lua scripts. They are as atomic as MULTI, and check in the same step that the mirror still belongs to
this writer and is at the expected generation.

Other clients may have written anything under the mirror's keys, so ``pcall`` is used where a key of another type must
not stop the writer.
"""

from __future__ import annotations

from shared.redis.mirror.change import OP_HEARTBEAT, OP_RESET

LOST, BEHIND, REBUILD_REQUESTED = -1, -2, 2
"""Results of the scripts: the mirror belongs to another writer; ``BEHIND`` minus the stored generation, which
``COMMIT`` must exceed; a reader requested that the mirror is written anew."""

_OURS = """
local function ours(epoch)
  return redis.pcall('GET', KEYS[1]) == epoch
    and redis.call('EXISTS', KEYS[2]) == 1 and redis.pcall('GET', KEYS[3]) == '1'
end
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function generation()
  local stored = redis.pcall('GET', KEYS[2])
  return type(stored) == 'string' and tonumber(stored) or 0
end
"""
COMMIT = (
    _OURS
    + """
-- KEYS: epoch generation complete heartbeat kinds stream seal, then staging and live hash per kind
-- ARGV: epoch, new generation, stream limit, hash prefix, seal, then kind and size per kind
local count = (#KEYS - 7) / 2
for i = 1, count do
  if redis.call('HLEN', KEYS[6 + 2 * i]) ~= tonumber(ARGV[5 + 2 * i]) then return -1 end
end
local stored = generation()
if stored >= tonumber(ARGV[2]) and stored < 2 ^ 52 and stored % 1 == 0 then return -2 - stored end
local kinds = redis.pcall('SMEMBERS', KEYS[5])
if not kinds.err then
  for _, kind in ipairs(kinds) do redis.call('UNLINK', ARGV[4] .. kind) end
end
redis.call('DEL', KEYS[5])
for i = 1, count do
  local staging, live = KEYS[6 + 2 * i], KEYS[7 + 2 * i]
  redis.call('UNLINK', live)
  if redis.call('EXISTS', staging) == 1 then
    redis.call('RENAME', staging, live)
    redis.call('PERSIST', live)
  end
  redis.call('SADD', KEYS[5], ARGV[4 + 2 * i])
end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
redis.call('SET', KEYS[3], '1')
redis.call('SET', KEYS[4], now())
redis.call('SET', KEYS[7], ARGV[5])
local entry = {'XADD', KEYS[6], 'MAXLEN', '~', ARGV[3], '*',
  'op', '"""
    + OP_RESET.decode()
    + """', 'epoch', ARGV[1], 'generation', ARGV[2]}
if type(redis.pcall(unpack(entry))) == 'table' then
  redis.call('DEL', KEYS[6])
  redis.call(unpack(entry))
end
return tonumber(ARGV[2])
"""
)
APPLY = (
    _OURS
    + """
-- KEYS: epoch generation complete kinds stream seal, then one hash per kind
-- ARGV: epoch, generation before (empty: unknown), seal, stream limit, number of kinds, the kinds,
--       then index, key, op, value per change
if not ours(ARGV[1]) then return -1 end
local at_generation = generation()
if ARGV[2] ~= '' and at_generation ~= tonumber(ARGV[2]) then return -1 end
local kinds = tonumber(ARGV[5])
for i = 1, kinds do
  if type(redis.pcall('SADD', KEYS[4], ARGV[5 + i])) == 'table' then return -1 end
end
for at = 6 + kinds, #ARGV, 4 do
  local index, key, op, value = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  at_generation = at_generation + 1
  local done
  if op == 'put' then
    done = redis.pcall('HSET', KEYS[6 + index], key, value)
  else
    done = redis.pcall('HDEL', KEYS[6 + index], key)
  end
  if type(done) == 'table' then return -1 end
  local entry = {'XADD', KEYS[5], 'MAXLEN', '~', ARGV[4], '*', 'op', op, 'kind', ARGV[5 + index],
    'key', key, 'generation', at_generation, 'body', value}
  if at + 4 > #ARGV and ARGV[3] ~= '' then
    entry[#entry + 1] = 'seal'
    entry[#entry + 1] = ARGV[3]
  end
  if type(redis.pcall(unpack(entry))) == 'table' then return -1 end
end
redis.call('SET', KEYS[2], at_generation)
if ARGV[3] ~= '' then redis.call('SET', KEYS[6], ARGV[3]) end
return at_generation
"""
)
HEARTBEAT = (
    _OURS
    + """
-- KEYS: epoch generation complete heartbeat stream seal heal, then one hash per kind
-- ARGV: epoch, generation (empty: unknown), seal, stream limit, then size per kind
if not ours(ARGV[1]) then return -1 end
if ARGV[2] ~= '' then
  if generation() ~= tonumber(ARGV[2]) then return -1 end
  for i = 8, #KEYS do
    if redis.pcall('HLEN', KEYS[i]) ~= tonumber(ARGV[i - 3]) then return -1 end
  end
  redis.call('SET', KEYS[6], ARGV[3])
  local added = redis.pcall('XADD', KEYS[5], 'MAXLEN', '~', ARGV[4], '*', 'op', '"""
    + OP_HEARTBEAT.decode()
    + """', 'generation', ARGV[2], 'seal', ARGV[3])
  if type(added) == 'table' then return -1 end
end
redis.call('SET', KEYS[4], now())
if redis.call('DEL', KEYS[7]) == 1 then return 2 end
return 1
"""
)
