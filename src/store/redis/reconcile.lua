-- ARGV: id of the call, run, account or "", cost
-- Answers with whether it was known, and what was counted for it.
local call_id, run, account, cost = ARGV[1], ARGV[2], ARGV[3], amount(ARGV[4])
local call = redis.call('HMGET', key('call', call_id), 'cost', 'hold')
local counted = amount(call[1])

local function correct(name)
	local meter = read_meter(name)
	meter.spent = minus(plus(meter.spent, cost), counted)
	write_meter(meter)
end

local hold = call[2] and find_hold(call[2])
if hold and hold.state == 'kept' then
	release_hold(hold)
end
correct('run:' .. run)
if account ~= '' then
	correct('account:' .. account)
end
redis.call('HDEL', key('call', call_id), 'hold')
redis.call('HSET', key('call', call_id), 'cost', text_of(cost), 'is_true', 1)
redis.call('EXPIRE', key('call', call_id), CALL_DAYS * DAY_S)
return { call[1] and 1 or 0, text_of(counted) }
