-- ARGV: the last revocation that is known, how many at a time, meters
-- Answers with the last that is known now, how many they are, those runs, and what is spent of
-- each meter.
local last = redis.call('GET', 'warder:revoked_last') or '0'
local known = tonumber(ARGV[1])

-- A store that lost its memory begins anew.
if tonumber(last) < known then
	known = 0
end
local runs = redis.call('ZRANGEBYSCORE', 'warder:revoked', '(' .. known, '+inf', 'WITHSCORES',
	'LIMIT', 0, ARGV[2])
local answer = { last, #runs / 2 }
for i = 1, #runs, 2 do
	answer[#answer + 1] = runs[i]
	answer[1] = runs[i + 1]
end
for i = 3, #ARGV do
	answer[#answer + 1] = redis.call('HGET', key('meter', ARGV[i]), 'spent') or '0'
end
return answer
