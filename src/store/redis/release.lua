-- ARGV: names of logs, since and before when (seconds), how many at a time, how many to pass over
-- Answers with 0 when that was all, else with how many to pass over next, and one.
local logs, since, before = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local most, passed = tonumber(ARGV[4]), tonumber(ARGV[5])
local LOG_LEN = 9

if bury(most) == 0 then
	return passed + 1
end
local ids = redis.call('ZRANGEBYSCORE', 'warder:kept', '-inf', '(' .. before, 'LIMIT', passed, most)
for _, id in ipairs(ids) do
	local is_theirs = string.find(logs, string.sub(id, -LOG_LEN), 1, true)
	local hold = is_theirs and take_hold('warder:kept', id)
	if hold and tonumber(hold.at) >= since then
		release_hold(hold)
	elseif hold or not is_theirs then
		passed = passed + 1
	end
end
return #ids == most and passed + 1 or 0
