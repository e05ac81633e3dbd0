-- ARGV: keeper, number of the connection, milliseconds, how much to bury
-- The keeper lives. Answers with the number of the last revocation.
local keeper, number, alive_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local other = redis.call('GET', key('keeper', keeper))

if other and tonumber(other) > tonumber(number) then
	return STALE
end
-- When nobody has said so for a while it was Redis that was away. Those who are slower to come
-- back than this one must not lose their places and links to it.
local half_ms = string.format('%.0f', alive_ms / 2)
if not redis.call('SET', 'warder:awake', 1, 'PX', half_ms, 'NX') then
	redis.call('PEXPIRE', 'warder:awake', half_ms)
else
	for _, name in ipairs(redis.call('SMEMBERS', 'warder:keepers')) do
		redis.call('SET', key('keeper', name), 0, 'PX', half_ms, 'NX')
	end
end
redis.call('SET', key('keeper', keeper), number, 'PX', ARGV[3])
redis.call('SADD', 'warder:keepers', keeper)
bury(tonumber(ARGV[4]))
return { redis.call('GET', 'warder:revoked_last') or '0' }
