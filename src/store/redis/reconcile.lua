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

-- Whose call it is, the hold knows best; the log is believed where there is none.
local names = { 'run:' .. run }
if account ~= '' then
	names[2] = 'account:' .. account
end
local hold = call[2] and find_hold(call[2])
if hold and hold.state == 'kept' then
	release_hold(hold)
	names = hold.meters
end
for _, name in ipairs(names) do
	if has_money(name) then
		correct(name)
	end
end
redis.call('HDEL', key('call', call_id), 'hold')
redis.call('HSET', key('call', call_id), 'cost', text_of(cost), 'is_true', 1)
redis.call('EXPIRE', key('call', call_id), CALL_DAYS * DAY_S)
return { call[1] and 1 or 0, text_of(counted) }
