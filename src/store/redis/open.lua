-- ARGV: keeper, number, run, whether it has no link, how old it is at least
-- Answers with the verdict, and when the run began, in milliseconds.
local keeper, number, run, has_no_link = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local values = redis.call('HMGET', key('run', run), 'begun', 'link')
local begun, link = values[1], values[2]

if is_stale(keeper, number) then
	return STALE
end
if redis.call('ZSCORE', 'warder:revoked', run) then
	return { 'revoked', begun or '0' }
end
if link and lives(link) and not has_no_link then
	return { 'link', begun }
end
local seconds, micros = now()
local now_ms = seconds * 1000 + math.floor(micros / 1000)
local known = math.max(now_ms - tonumber(ARGV[5]), 1)
-- A clock that was put back makes no run older.
if not begun or (known < tonumber(begun) and tonumber(begun) <= now_ms) then
	begun = string.format('%.0f', known)
end
redis.call('HSET', key('run', run), 'begun', begun)
if not has_no_link then
	redis.call('HSET', key('run', run), 'link', keeper)
	redis.call('SADD', key('runs', keeper), run)
end
age_run(run)
return { 'granted', begun }
