-- What a puller says about one delivery of an entry. Of an earlier delivery than the last one only an acknowledgement counts.
-- KEYS: stream, dead letters. ARGV: group, id, attempt, dead letters to keep, word, value.
-- Words: ack; idle with the idle time in ms that the entry is to have; dead with the reason.
local stream, dead = KEYS[1], KEYS[2]
local group, id, attempt, dead_max, word, value = unpack(ARGV)
if word == 'ack' then
  return redis.call('XACK', stream, group, id)
end
local pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
if not pending or pending[4] ~= tonumber(attempt) then
  return 0
end
if word == 'idle' then
  redis.call('XCLAIM', stream, group, 'puller', 0, id, 'IDLE', value, 'JUSTID')
else
  local entry = redis.call('XRANGE', stream, id, id)[1]
  if entry then
    redis.call('XADD', dead, 'MAXLEN', '~', dead_max, '*',
      'id', id, 'attempts', attempt, 'reason', value, unpack(entry[2]))
  end
  redis.call('XACK', stream, group, id)
end
return 1
