-- ARGV: keeper, number, run
-- Answers with the verdict, and when the run began, in milliseconds.
local keeper, number, run = ARGV[1], ARGV[2], ARGV[3]
local values = redis.call('HMGET', key('run', run), 'begun', 'link')
local begun, link = values[1], values[2]

if is_stale(keeper, number) then
	return STALE
end
if redis.call('ZSCORE', 'warder:revoked', run) then
	return { 'revoked', begun or '0' }
end
if link and lives(link) then
	return { 'link', begun }
end
if not begun then
	local seconds, micros = now()
	begun = string.format('%.0f', seconds * 1000 + math.floor(micros / 1000))
end
redis.call('HSET', key('run', run), 'begun', begun, 'link', keeper)
age_run(run)
redis.call('SADD', key('runs', keeper), run)
return { 'granted', begun }
