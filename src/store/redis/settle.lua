-- ARGV: keeper, number, hold, bytes, cost or "", id of the call or ""
local keeper, number, id, call_id = ARGV[1], ARGV[2], ARGV[3], ARGV[6]
local bytes = amount(ARGV[4])
local cost = ARGV[5] ~= '' and amount(ARGV[5]) or nil

if is_stale(keeper, number) then
	return STALE
end
local hold = find_hold(id)
if not hold or hold.state == 'kept' then
	return 0
end
-- The upstream's log may have been faster than the one who settles; it is counted then.
local call = { nil, nil }
if call_id ~= '' then
	call = redis.call('HMGET', key('call', call_id), 'cost', 'is_true')
end
local is_counted = call[2]
local is_kept = not cost and not is_counted and not is_zero(hold.spend)
local spent = cost or amount(nil)

for _, name in ipairs(hold.meters) do
	local meter = read_meter(name)
	meter.bytes = plus(minus(meter.bytes, hold.bytes), bytes)
	if not is_kept then
		meter.reserved = minus(meter.reserved, hold.spend)
	end
	if not is_counted and has_money(name) then
		meter.spent = plus(meter.spent, spent)
	end
	write_meter(meter)
end
free_places(hold)
if is_kept then
	keep_hold(hold, 'kept', bytes)
else
	forget_hold(hold)
end
if call_id ~= '' and not is_counted then
	if is_kept then
		redis.call('HSET', key('call', call_id), 'hold', id)
	end
	redis.call('HSET', key('call', call_id), 'cost', text_of(plus(amount(call[1]), spent)))
	redis.call('EXPIRE', key('call', call_id), CALL_DAYS * DAY_S)
end
return 1
