-- SPDX-License-Identifier: MIT
-- What every script begins with. Under "warder:" there are
--
--   meter:M     hash: bytes, spent, reserved; gone when all of them are 0, or with its run
--   places:M    hash: for each keeper, how many exchanges are under way
--   rate:M      a token bucket: "what it lacks, microseconds"; gone when it is full
--   hold:ID     hash: keeper, state (open, left, kept), at, bytes, spend, call, meters (1, 2, 3)
--   holds:K     the open holds of a keeper, by time
--   kept        the others, by when they became that
--   call:ID     hash: cost (what was counted), hold (that is kept for it), is_true (reconciled);
--               for 30 days
--   run:R       hash: begun, link (the keeper that has it, if any); for RUN_DAYS after it was last used
--   runs:K      the runs that have their link with a keeper
--   keeper:K    the number of a keeper's connection, while it lives
--   keepers     all of them, until they are buried
--   awake       is there while any keeper says that it lives
--   revoked     runs, by the order in which they were revoked; revoked_last counts them

local CALL_DAYS, RUN_DAYS = 30, 366
local DAY_S = 86400

local function key(kind, name)
	return 'warder:' .. kind .. ':' .. name
end

local function now()
	local time = redis.call('TIME')
	return tonumber(time[1]), tonumber(time[2])
end

-- Numbers are exact to 2^53 here, amounts go to 2^64: an amount is two numbers, how many
-- billions it has and what is left. None is larger than MOST.
local BILLION = 1e9
local MOST = { 9223372036, 854775807 }

local function amount(text)
	if not text then
		return { 0, 0 }
	end
	return { tonumber(string.sub(text, 1, -10)) or 0, tonumber(string.sub(text, -9)) }
end

local function text_of(a)
	if a[1] == 0 then
		return string.format('%.0f', a[2])
	end
	return string.format('%.0f%09.0f', a[1], a[2])
end

local function is_less(a, b)
	return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2])
end

local function is_zero(a)
	return a[1] == 0 and a[2] == 0
end

local function plus(a, b)
	local high, low = a[1] + b[1], a[2] + b[2]
	if low >= BILLION then
		high, low = high + 1, low - BILLION
	end
	local sum = { high, low }
	return is_less(MOST, sum) and MOST or sum
end

-- Not below 0.
local function minus(a, b)
	if is_less(a, b) then
		return { 0, 0 }
	end
	local high, low = a[1] - b[1], a[2] - b[2]
	if low < 0 then
		return { high - 1, low + BILLION }
	end
	return { high, low }
end

local function read_meter(name)
	local values = redis.call('HMGET', key('meter', name), 'bytes', 'spent', 'reserved')
	return { name = name, bytes = amount(values[1]), spent = amount(values[2]),
		reserved = amount(values[3]) }
end

-- It was used. What is known of a run goes together (store/store.h): not while it has a link, nor
-- while money is held of it.
local function age_run(run)
	local run_key, meter_key = key('run', run), key('meter', 'run:' .. run)
	local reserved = redis.call('HGET', meter_key, 'reserved')
	local is_open = redis.call('HEXISTS', run_key, 'link') == 1
	for _, name in ipairs({ run_key, meter_key }) do
		if is_open or not is_zero(amount(reserved)) then
			redis.call('PERSIST', name)
		else
			redis.call('EXPIRE', name, RUN_DAYS * DAY_S)
		end
	end
end

local function write_meter(meter)
	if is_zero(meter.bytes) and is_zero(meter.spent) and is_zero(meter.reserved) then
		redis.call('DEL', key('meter', meter.name))
	else
		redis.call('HSET', key('meter', meter.name), 'bytes', text_of(meter.bytes),
			'spent', text_of(meter.spent), 'reserved', text_of(meter.reserved))
	end
	if string.sub(meter.name, 1, 4) == 'run:' then
		age_run(string.sub(meter.name, 5))
	end
end

-- Budgets are of runs and accounts.
local function has_money(name)
	return string.sub(name, 1, 5) ~= 'host:'
end

-- A keeper that was silent for too long counts as gone from that moment on, buried or not.
local function lives(keeper)
	return redis.call('EXISTS', key('keeper', keeper)) == 1
end

local function count_places(name)
	local fields = redis.call('HGETALL', key('places', name))
	local count = 0
	for i = 1, #fields, 2 do
		if lives(fields[i]) then
			count = count + tonumber(fields[i + 1])
		end
	end
	return count
end

local function free_place(name, keeper)
	if redis.call('HINCRBY', key('places', name), keeper, -1) <= 0 then
		redis.call('HDEL', key('places', name), keeper)
	end
end

local function find_hold(id)
	local values = redis.call('HMGET', key('hold', id), 'keeper', 'state', 'at', 'bytes', 'spend',
		'call', '1', '2', '3')
	if not values[1] then
		return nil
	end
	local hold = { id = id, keeper = values[1], state = values[2], at = values[3],
		bytes = amount(values[4]), spend = amount(values[5]), call = values[6], meters = {} }
	for i = 7, 9 do
		hold.meters[#hold.meters + 1] = values[i] or nil
	end
	return hold
end

-- Its exchange is over, or its keeper is.
local function free_places(hold)
	if hold.state ~= 'open' then
		return
	end
	for _, name in ipairs(hold.meters) do
		free_place(name, hold.keeper)
	end
	redis.call('ZREM', key('holds', hold.keeper), hold.id)
end

local function forget_hold(hold)
	redis.call('DEL', key('hold', hold.id))
	if hold.state ~= 'open' then
		redis.call('ZREM', 'warder:kept', hold.id)
	end
end

-- From now on it is only money.
local function keep_hold(hold, state, bytes)
	redis.call('HSET', key('hold', hold.id), 'state', state, 'bytes', text_of(bytes))
	redis.call('ZADD', 'warder:kept', (now()), hold.id)
end

-- Gives its money back, and leaves its bytes where they are: they may have been used.
local function release_hold(hold)
	for _, name in ipairs(hold.meters) do
		local meter = read_meter(name)
		meter.reserved = minus(meter.reserved, hold.spend)
		write_meter(meter)
	end
	forget_hold(hold)
end

-- What is in a list is there, unless somebody has removed keys by hand.
local function take_hold(list, id)
	local hold = find_hold(id)
	if not hold then
		redis.call('ZREM', list, id)
	end
	return hold
end

local function bury_hold(hold)
	free_places(hold)
	if is_zero(hold.spend) then
		forget_hold(hold)
	else
		keep_hold(hold, 'left', hold.bytes)
	end
end

local function drop_link(run, keeper)
	if redis.call('HGET', key('run', run), 'link') == keeper then
		redis.call('HDEL', key('run', run), 'link')
		age_run(run)
	end
	redis.call('SREM', key('runs', keeper), run)
end

-- Takes away what is left of keepers that are gone, so much of it at a time; what is left of
-- `most` tells whether that was all.
local function bury(most)
	for _, keeper in ipairs(redis.call('SMEMBERS', 'warder:keepers')) do
		if not lives(keeper) then
			local ids = redis.call('ZRANGE', key('holds', keeper), 0, most - 1)
			for _, id in ipairs(ids) do
				local hold = take_hold(key('holds', keeper), id)
				if hold then
					bury_hold(hold)
				end
			end
			most = most - #ids
			if most <= 0 then
				return 0
			end
			for _, run in ipairs(redis.call('SRANDMEMBER', key('runs', keeper), most)) do
				drop_link(run, keeper)
				most = most - 1
			end
			if most <= 0 then
				return 0
			end
			redis.call('SREM', 'warder:keepers', keeper)
		end
	end
	return most
end

-- A connection that was given up may still be read by Redis after its successor: what is asked
-- for on it then must not be done, since the keeper has already taken it back.
local function is_stale(keeper, number)
	return redis.call('GET', key('keeper', keeper)) ~= number
end

local STALE = { err = 'STALE a connection that was given up' }
