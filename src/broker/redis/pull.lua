-- Takes what a durable has for a puller: first what comes again, then what is new.
-- An entry in someone's hands lies in the group's list of pending ones. Its idle time is set so that it reaches `horizon` when
-- the entry may come again; so one command finds all that may, though each waits for its own time.
-- KEYS: stream, dead letters. ARGV: group, count, cursor, horizon in ms, deliveries at most (0: no limit), dead letters to keep,
-- number of steps, ms of each step, then patterns of subjects.
local stream, dead = KEYS[1], KEYS[2]
local group, count, cursor, horizon = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local deliveries_max, dead_max, steps = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local ROUNDS = 10
local taken = {}

local function lease(id, attempt, fields)
  local wait = tonumber(ARGV[7 + math.min(attempt, steps)])
  redis.call('XCLAIM', stream, group, 'puller', 0, id, 'IDLE', horizon - wait, 'JUSTID')
  taken[#taken + 1] = {id, attempt, fields}
end

local function selected(fields)
  if #ARGV == 7 + steps then
    return true
  end
  for at = 1, #fields, 2 do
    if fields[at] == 'subject' then
      for pattern = 8 + steps, #ARGV do
        if string.find(fields[at + 1], ARGV[pattern]) then
          return true
        end
      end
      return false
    end
  end
  return false
end

local due = redis.call('XAUTOCLAIM', stream, group, 'puller', horizon, cursor, 'COUNT', count)
for _, entry in ipairs(due[2]) do
  -- One that was trimmed meanwhile is nothing here.
  if entry and entry[2] then
    local id, fields = entry[1], entry[2]
    local attempt = redis.call('XPENDING', stream, group, id, id, 1)[1][4]
    if deliveries_max > 0 and attempt > deliveries_max then
      redis.call('XADD', dead, 'MAXLEN', '~', dead_max, '*',
        'id', id, 'attempts', attempt - 1, 'reason', 'max_deliver', unpack(fields))
      redis.call('XACK', stream, group, id)
    else
      lease(id, attempt, fields)
    end
  end
end

for _ = 1, ROUNDS do
  if #taken >= count then
    break
  end
  local new = redis.call('XREADGROUP', 'GROUP', group, 'puller', 'COUNT', count - #taken, 'STREAMS', stream, '>')
  if not new then
    break
  end
  for _, entry in ipairs(new[1][2]) do
    if selected(entry[2]) then
      lease(entry[1], 1, entry[2])
    else
      redis.call('XACK', stream, group, entry[1])
    end
  end
end

local last = '0-0'
for _, info in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local of = {}
  for at = 1, #info, 2 do
    of[info[at]] = info[at + 1]
  end
  if of['name'] == group then
    last = of['last-delivered-id']
  end
end
return {due[1], last, taken}
