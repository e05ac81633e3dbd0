-- ARGV: keeper, number, hold, run, bytes, money, bytes beside, whether it is those alone; then for
-- each claim: meter, rate in thousandths per hour, burst, places, bytes, money
-- Answers with the verdict, which claim, when to come again in milliseconds, and how many bytes.
local CLAIM_FROM, CLAIM_LEN = 9, 6
-- With a rate R a token takes TOKEN / R milliseconds.
local TOKEN = 3.6e9
local FULL_MAX_MS = 1e12 -- Redis has no later times than these
-- Whoever waits does so by a clock of whole milliseconds: a token that is there in less than one
-- is taken, and lacks from then on. So much of a token at most:
local EARLY_MAX = 0.5
local PLACE_RETRY_MS = 1000 -- a guess: nobody knows when an exchange ends
local keeper, number, id, run = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local bytes, spend = amount(ARGV[5]), amount(ARGV[6])
local more, is_more = amount(ARGV[7]), ARGV[8] == '1'
local wants_more = not is_zero(more)
local seconds, micros = now()
local now_us = seconds * 1e6 + micros

local function read_claim(at)
	local claim = { name = ARGV[at], rate = tonumber(ARGV[at + 1]), burst = tonumber(ARGV[at + 2]),
		places = tonumber(ARGV[at + 3]), bytes = amount(ARGV[at + 4]),
		spend = amount(ARGV[at + 5]) }
	if claim.burst == 0 then
		claim.burst = math.max(1, claim.rate * 1000 / TOKEN)
	end
	claim.meter = read_meter(claim.name)
	return claim
end

-- What the bucket lacks is kept of it: a new one lacks nothing, and a limit that is changed needs
-- no conversion.
local function write_missing(claim, missing)
	local full_ms = math.min(FULL_MAX_MS, math.ceil(missing * TOKEN / claim.rate) + 1)
	redis.call('SET', key('rate', claim.name), string.format('%.17g %.0f', missing, now_us),
		'PX', string.format('%.0f', full_ms))
end

-- How many tokens it lacks now.
local function count_missing(claim)
	local text = redis.call('GET', key('rate', claim.name))
	if not text then
		return 0
	end
	local missing, then_us = string.match(text, '^(%S+) (%S+)$')
	local waited_us = now_us - tonumber(then_us)
	missing = math.min(claim.burst + EARLY_MAX, tonumber(missing))
	-- The clock was put back: it fills from now on, not when that time has come again.
	if waited_us < 0 then
		write_missing(claim, missing)
		return missing
	end
	return math.max(0, missing - waited_us * claim.rate / (TOKEN * 1000))
end

-- Nothing is counted past MOST. Without a limit nothing is refused, even there.
local function exceeds(used, more, limit)
	if is_zero(limit) then
		return false
	end
	if is_less(MOST, limit) then
		limit = MOST
	end
	return is_less(limit, more) or is_less(minus(limit, more), used)
end

-- Of the bytes that are wanted beside there are as many as the claim with the fewest has; false
-- when that is none.
local function find_room(claim)
	if not wants_more or is_zero(claim.bytes) then
		return true
	end
	local limit = is_less(MOST, claim.bytes) and MOST or claim.bytes
	local room = minus(limit, plus(claim.meter.bytes, bytes))
	if is_less(room, more) then
		more = room
	end
	return not is_zero(room)
end

-- The verdict of one claim, and when it might be another; nil when it is fine.
local function judge(claim)
	if exceeds(claim.meter.bytes, bytes, claim.bytes) or not find_room(claim) then
		return 'bytes', 0
	end
	if is_more then
		return nil
	end
	if exceeds(plus(claim.meter.spent, claim.meter.reserved), spend, claim.spend) then
		return 'money', 0
	end
	if claim.rate > 0 then
		claim.missing = count_missing(claim)
		local lacking = claim.missing + 1 - claim.burst
		if lacking > math.min(EARLY_MAX, claim.rate / TOKEN) then
			return 'rate', math.max(1, math.ceil(lacking * TOKEN / claim.rate))
		end
	end
	if claim.places > 0 and count_places(claim.name) >= claim.places then
		return 'place', PLACE_RETRY_MS
	end
	return nil
end

local function extend(claim)
	claim.meter.bytes = plus(claim.meter.bytes, bytes)
	write_meter(claim.meter)
end

local function take(claim)
	if claim.rate > 0 then
		write_missing(claim, claim.missing + 1)
	end
	redis.call('HINCRBY', key('places', claim.name), keeper, 1)
	if not is_zero(bytes) or not is_zero(spend) then
		claim.meter.bytes = plus(claim.meter.bytes, bytes)
		if has_money(claim.name) then
			claim.meter.reserved = plus(claim.meter.reserved, spend)
		end
		write_meter(claim.meter)
	end
end

if is_stale(keeper, number) then
	return STALE
end
if redis.call('ZSCORE', 'warder:revoked', run) then
	return { 'revoked', 0, 0, 0 }
end
local hold = is_more and find_hold(id)
if is_more and (not hold or hold.state ~= 'open') then
	return { 'bytes', 0, 0, 0 }
end
local claims = {}
for at = CLAIM_FROM, #ARGV, CLAIM_LEN do
	local claim = read_claim(at)
	local verdict, retry_ms = judge(claim)
	if verdict then
		return { verdict, #claims, retry_ms, 0 }
	end
	claims[#claims + 1] = claim
end
bytes = plus(bytes, more)
if is_more then
	for _, claim in ipairs(claims) do
		extend(claim)
	end
	redis.call('HSET', key('hold', id), 'bytes', text_of(plus(hold.bytes, bytes)))
	return { 'granted', 0, 0, text_of(bytes) }
end
local fields = { 'keeper', keeper, 'state', 'open', 'at', seconds, 'bytes', text_of(bytes),
	'spend', text_of(spend) }
for i, claim in ipairs(claims) do
	take(claim)
	fields[#fields + 1] = i
	fields[#fields + 1] = claim.name
end
redis.call('HSET', key('hold', id), unpack(fields))
redis.call('ZADD', key('holds', keeper), seconds, id)
return { 'granted', 0, 0, text_of(bytes) }
