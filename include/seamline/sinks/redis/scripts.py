"""The scripts that the server runs, each as one step that nobody sees half of.

A script that fails behind its first write has written what it had: Redis takes nothing back. So each first reads all
that could refuse it (ledger, rights, types of keys, sizes), and writes only what cannot fail any more. A row is written
by DEL and HSET: whatever stood under its key goes. What Redis itself refuses (no memory, a replica, a full disk) it
refuses at the first write of a script and at no later one.

Arguments and answers are MessagePack. Numbers of the ledger are compared as texts: Lua's own end at 2^53.
"""

# Of the keys that a script reads before it writes, and of the commands that it will need.
_ASKED = """
local function fits(key, kind)
  local found = redis.call('TYPE', key).ok
  return found == 'none' or found == kind
end
local function lacking(key)
  for _, needed in ipairs({
    {'HSET', key, 'f', 'v'}, {'HDEL', key, 'f'}, {'HINCRBY', key, 'f', '1'}, {'DEL', key}, {'UNLINK', key},
    {'ZADD', key, '0', 'm'}, {'ZREM', key, 'm'}, {'RPUSH', key, 'v'}, {'SADD', key, 'm'}, {'SREM', key, 'm'},
    {'RENAME', key, key}, {'HMGET', key, 'f'}, {'HGETALL', key}, {'ZRANGE', key, '0', '1'}, {'EXISTS', key},
    {'LRANGE', key, '0', '1'}, {'SMEMBERS', key}, {'GET', key}, {'ZCARD', key}, {'TIME'},
  }) do
    if not redis.acl_check_cmd(unpack(needed)) then return needed[1] end
  end
  return false
end
local function each_thousand(members, prefix, act)
  for first = 1, #members, 1000 do
    local keys = {}
    for place = first, math.min(first + 999, #members) do keys[#keys + 1] = prefix .. members[place] end
    act(keys)
  end
end
local function unlink_rows(rows, index)
  each_thousand(redis.call('ZRANGE', index, 0, -1), rows, function(keys) redis.call('UNLINK', unpack(keys)) end)
  redis.call('DEL', index)
end
local function now()
  local time = redis.call('TIME')
  return time[1] .. string.format('%06d', time[2])
end
"""

RIGHTS = _ASKED + "return lacking(KEYS[1])"

# Writes rows into a place that nobody reads yet; how many are there. KEYS: index, `@staged`, `@written`. ARGV: prefix
# of the rows, names of the columns, rows, name of the place.
STAGE_ROWS = """
if redis.call('HEXISTS', KEYS[2], ARGV[4]) == 0 then return -1 end
local columns, rows = cmsgpack.unpack(ARGV[2]), cmsgpack.unpack(ARGV[3])
for _, row in ipairs(rows) do
  local key, fields = ARGV[1] .. row[1], {}
  for place, column in ipairs(columns) do
    local value = row[place + 1]
    if value then fields[#fields + 1] = column; fields[#fields + 1] = value end
  end
  redis.call('DEL', key)
  redis.call('HSET', key, unpack(fields))
  redis.call('ZADD', KEYS[1], 0, row[1])
end
redis.call('HINCRBY', KEYS[3], ARGV[4], #ARGV[3])
return redis.call('ZCARD', KEYS[1])
"""

# A page of rows behind a member of the index, and where the ledger stands. A key that somebody has given another type
# is no row. KEYS: index, ledger. ARGV: prefix of the rows, names of the columns, the least member that is wanted, how
# many, and behind how many bytes there are no more.
READ_ROWS = (
    _ASKED
    + """
local ledger = redis.call('HMGET', KEYS[2], 'epoch', 'next_offset')
local members = redis.call('ZRANGE', KEYS[1], ARGV[3], '+', 'BYLEX', 'LIMIT', 0, ARGV[4])
local columns, rows, bytes = cmsgpack.unpack(ARGV[2]), {}, 0
for place, member in ipairs(members) do
  local row = redis.pcall('HMGET', ARGV[1] .. member, unpack(columns))
  if row.err then
    if fits(ARGV[1] .. member, 'hash') then return redis.error_reply(row.err) end
    row = {}
    for column = 1, #columns do row[column] = false end
  end
  rows[place] = row
  for _, value in ipairs(row) do bytes = bytes + (value and #value or 0) end
  if bytes > tonumber(ARGV[5]) then break end
end
return {members[#rows] or false, cmsgpack.pack(rows), ledger[1], ledger[2]}
"""
)

# Removes a page of a table that nobody reads any more; how many are left. KEYS: index. ARGV: prefix, how many.
DROP_ROWS = """
local members = redis.call('ZRANGE', KEYS[1], 0, ARGV[2] - 1)
if #members == 0 then return 0 end
local keys = {}
for place, member in ipairs(members) do keys[place] = ARGV[1] .. member end
redis.call('UNLINK', unpack(keys))
redis.call('ZREM', KEYS[1], unpack(members))
return redis.call('ZCARD', KEYS[1])
"""

# The next epoch, if the ledger's is that one. KEYS: ledger, chunks. ARGV: the epoch.
TAKE_EPOCH = """
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return false end
redis.call('HINCRBY', KEYS[1], 'epoch', 1)
redis.call('HSET', KEYS[1], 'updated_at', redis.call('TIME')[1])
for _, key in ipairs(redis.call('SMEMBERS', KEYS[2])) do redis.call('UNLINK', key) end
redis.call('DEL', KEYS[2])
return redis.call('HGETALL', KEYS[1])
"""

# A part of a large transaction, for the commit under this epoch. KEYS: ledger, chunks, the part. ARGV: epoch, rows.
KEEP_CHUNK = """
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
redis.call('SADD', KEYS[2], KEYS[3])
redis.call('SET', KEYS[3], ARGV[2])
return 1
"""

# Compare-and-set of the ledger and the rows of a span. KEYS: ledger, chunks, findings. ARGV: the request, rows.
COMMIT = (
    _ASKED
    + """
local request = cmsgpack.unpack(ARGV[1])
local ledger = KEYS[1]
local stands = redis.call('HMGET', ledger, 'topic_id', 'next_offset', 'epoch')
for place, wanted in ipairs(request.expected) do
  if stands[place] ~= wanted then return {'STALE', redis.call('HGETALL', ledger)} end
end
local command = lacking(ledger)
if command then return {'NOPERM', command} end
if not fits(KEYS[3], 'list') or not fits(KEYS[2], 'set') then return {'TYPE', KEYS[3]} end

-- What every change would meet, chunk by chunk. Nothing is written yet.
local count, found, total = 0, {}, 0
local function met(table_, row)
  total = total + 1
  if total > request.findings_max then return end
  local key = {}
  for _, part in ipairs(table_.key) do
    local value = row[part[1] + 5]
    key[#key + 1] = cjson.encode(table_.columns[part[1]]) .. ': ' .. (part[2] and value or cjson.encode(value))
  end
  local kind = 'insert met a row'
  if row[3] then kind = row[2] and 'delete met no row' or 'update met no row' end
  found[#found + 1] = {table_.name, kind, '{' .. table.concat(key, ', ') .. '}', row[4]}
end
for _, table_ in ipairs(request.tables) do
  if not fits(table_.index, 'zset') then return {'TYPE', table_.index} end
  if table_.truncate then count = count + redis.call('ZCARD', table_.index) end
  local after = {}
  local function is_there(member)
    if after[member] ~= nil then return after[member] end
    return not table_.truncate and redis.call('EXISTS', table_.rows .. member) == 1
  end
  for _, batch in ipairs(table_.batches) do
    local packed = batch.place and ARGV[batch.place] or redis.call('GET', batch.chunk)
    if not packed then return {'CHUNK', batch.chunk} end
    batch.rows = cmsgpack.unpack(packed)
    count = count + #batch.rows
    if count > request.rows_max then return {'TOO_MANY', count} end
    for _, row in ipairs(batch.rows) do
      row.is_there = is_there(row[1])
      if row[3] ~= nil and row[3] ~= row.is_there then met(table_, row) end
      if batch.is_partial and not row[2] then
        for place = 1, #table_.columns do row.lacks = row.lacks or row[place + 5] == false end
        local origin = row[5] or row[1]
        if row.lacks and not is_there(origin) then return {'LOST', table_.name} end
        if row.lacks and after[origin] == nil and not fits(table_.rows .. origin, 'hash') then
          return {'TYPE', table_.rows .. origin}
        end
      end
    end
    for _, row in ipairs(batch.rows) do after[row[1]] = not row[2] end
  end
end
if count > request.rows_max then return {'TOO_MANY', count} end

-- From here on nothing can refuse.
for _, table_ in ipairs(request.tables) do
  if table_.truncate then unlink_rows(table_.rows, table_.index) end
  for _, batch in ipairs(table_.batches) do
    for _, row in ipairs(batch.rows) do
      if row.lacks then row.stored = redis.call('HMGET', table_.rows .. (row[5] or row[1]), unpack(table_.columns)) end
    end
    for _, row in ipairs(batch.rows) do
      local key = table_.rows .. row[1]
      if row.is_there or table_.truncate then redis.call('DEL', key) end
      if row[2] then
        redis.call('ZREM', table_.index, row[1])
      else
        local fields = {}
        for place, column in ipairs(table_.columns) do
          local value = row[place + 5]
          if value == false then value = row.stored[place] end
          if value then fields[#fields + 1] = column; fields[#fields + 1] = value end
        end
        redis.call('HSET', key, unpack(fields))
        redis.call('ZADD', table_.index, 0, row[1])
      end
    end
    if batch.chunk then redis.call('UNLINK', batch.chunk); redis.call('SREM', KEYS[2], batch.chunk) end
  end
end
redis.call('HINCRBY', ledger, 'applied_transactions', request.transactions)
redis.call('HSET', ledger, 'updated_at', redis.call('TIME')[1], unpack(request.fields))
for _, one in ipairs(found) do
  local number = redis.call('HINCRBY', ledger, 'findings', 1)
  redis.call('RPUSH', KEYS[3], cmsgpack.pack({number, now(), unpack(one)}))
end
return {'DONE', redis.call('HGETALL', ledger), cmsgpack.pack(found), total}
"""
)

# Tables get the names of others, with the ledger that says so. KEYS: ledger, runs, findings, `@tables`, `@streams`,
# `@staged`, `@written`. ARGV: the request.
PLACE = (
    _ASKED
    + """
local request = cmsgpack.unpack(ARGV[1])
local ledger, runs, findings, tables, streams, staged, written = unpack(KEYS)
for place, kind in ipairs({'hash', 'set', 'list', 'hash', 'set', 'hash', 'hash'}) do
  if not fits(KEYS[place], kind) then return {'TYPE', KEYS[place]} end
end
if redis.call('SISMEMBER', runs, request.run_id) == 1 then return {'DONE', redis.call('HGETALL', ledger)} end
for _, expected in ipairs(request.expected) do
  local stands = redis.call('HMGET', expected.ledger, 'topic_id', 'next_offset', 'epoch')
  for place, wanted in ipairs(expected.at) do
    if stands[place] ~= wanted then return {'STALE'} end
  end
end
local command = lacking(ledger)
if command then return {'NOPERM', command} end
local count = 0
for _, move in ipairs(request.moves) do
  for _, index in ipairs({move.from.index, move.to.index}) do
    if not fits(index, 'zset') then return {'TYPE', index} end
    count = count + redis.call('ZCARD', index)
  end
  if count > request.rows_max then return {'TOO_MANY', count} end
  local owner = redis.call('HGET', tables, move.to.name)
  if (owner or redis.call('EXISTS', move.to.index) == 1) and owner ~= request.stream then
    return {'OTHERS', move.table, owner or ''}
  end
  if move.staged and redis.call('HEXISTS', staged, move.staged) == 0 then return {'GONE', move.table} end
  local held, there = redis.call('ZCARD', move.from.index), 0
  each_thousand(redis.call('ZRANGE', move.from.index, 0, -1), move.from.rows, function(keys)
    there = there + redis.call('EXISTS', unpack(keys))
  end)
  if there ~= (move.count or there) then return {'LACKS', move.table, there} end
  if there ~= held then return move.staged and {'LACKS', move.table, held} or {'GAPS', move.table, held - there} end
end

-- From here on nothing can refuse.
for _, move in ipairs(request.moves) do
  unlink_rows(move.to.rows, move.to.index)
  for _, member in ipairs(redis.call('ZRANGE', move.from.index, 0, -1)) do
    redis.call('RENAME', move.from.rows .. member, move.to.rows .. member)
  end
  if redis.call('EXISTS', move.from.index) == 1 then redis.call('RENAME', move.from.index, move.to.index) end
  redis.call('HDEL', tables, move.from.name)
  if move.is_kept then redis.call('HDEL', tables, move.to.name) else
    redis.call('HSET', tables, move.to.name, request.stream)
  end
  if move.staged then redis.call('HDEL', staged, move.staged); redis.call('HDEL', written, move.staged) end
end
local over, kept = {}, {}
for _, name in ipairs(request.over) do over[name] = true end
for _, one in ipairs(redis.call('LRANGE', findings, 0, -1)) do
  if not over[cmsgpack.unpack(one)[3]] then kept[#kept + 1] = one end
end
redis.call('DEL', findings)
for _, one in ipairs(kept) do redis.call('RPUSH', findings, one) end
if request.taken then
  for _, one in ipairs(redis.call('LRANGE', request.taken, 0, -1)) do
    local again = cmsgpack.unpack(one)
    again[1], again[2] = redis.call('HINCRBY', ledger, 'findings', 1), now()
    redis.call('RPUSH', findings, cmsgpack.pack(again))
  end
end
redis.call('SADD', streams, request.stream)
redis.call('SADD', runs, request.run_id)
redis.call('HINCRBY', ledger, 'epoch', 1)
redis.call('HINCRBY', ledger, 'applied_transactions', 0)
redis.call('HSET', ledger, 'updated_at', redis.call('TIME')[1], unpack(request.fields))
for _, one in ipairs(request.forgotten) do
  redis.call('SREM', streams, one.stream)
  for _, chunk in ipairs(redis.call('SMEMBERS', one.chunks)) do redis.call('UNLINK', chunk) end
  redis.call('UNLINK', one.chunks, unpack(one.keys))
end
return {'DONE', redis.call('HGETALL', ledger)}
"""
)

# Everything of a stream, if its ledger has not moved. KEYS: ledger, `@streams`. ARGV: when it moved last, what goes.
FORGET = """
if redis.call('HGET', KEYS[1], 'updated_at') ~= ARGV[1] then return 0 end
local one = cmsgpack.unpack(ARGV[2])
redis.call('SREM', KEYS[2], one.stream)
for _, chunk in ipairs(redis.call('SMEMBERS', one.chunks)) do redis.call('UNLINK', chunk) end
redis.call('UNLINK', one.chunks, unpack(one.keys))
return 1
"""
