-- ARGV: keeper, number of the connection, milliseconds, how much to bury
-- The keeper lives. Answers with the number of the last revocation.
local keeper, number = ARGV[1], ARGV[2]
local other = redis.call('GET', key('keeper', keeper))

if other and tonumber(other) > tonumber(number) then
	return STALE
end
redis.call('SET', key('keeper', keeper), number, 'PX', ARGV[3])
redis.call('SADD', 'warder:keepers', keeper)
bury(tonumber(ARGV[4]))
return { redis.call('GET', 'warder:revoked_last') or '0' }
