-- Stores an entry once: the id is looked for, the entry added and the id kept in one step.
-- The id comes last, so that an entry that Redis does not take leaves none behind.
-- KEYS: stream, id. ARGV: window in ms, entries to keep, then fields and values.
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', unpack(ARGV, 3))
redis.call('SET', KEYS[2], '', 'PX', ARGV[1])
return 1
