-- ARGV: seconds, how many at a time
-- Answers with whether there may be more.
local most = tonumber(ARGV[2])

if bury(most) == 0 then
	return 1
end
local ids = redis.call('ZRANGEBYSCORE', 'warder:kept', '-inf', '(' .. ARGV[1], 'LIMIT', 0, most)
for _, id in ipairs(ids) do
	local hold = take_hold('warder:kept', id)
	if hold then
		release_hold(hold)
	end
end
return #ids == most and 1 or 0
