-- Stores an entry once: the id is looked for, the entry added and the id kept in one step.
-- The id comes last, so that an entry that Redis does not take leaves none behind.
-- Says whether the stream's durables are declared: a Redis that lost everything has to be told again.
-- KEYS: stream, id, durables. ARGV: window in ms, entries to keep, then fields and values.
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', unpack(ARGV, 3))
  redis.call('SET', KEYS[2], '', 'PX', ARGV[1])
end
return redis.call('EXISTS', KEYS[3])
