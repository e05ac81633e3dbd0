-- ARGV: meter
-- Answers with its bytes, what is spent, what is reserved, and how many are under way.
local meter = read_meter(ARGV[1])
return { text_of(meter.bytes), text_of(meter.spent), text_of(meter.reserved),
	count_places(ARGV[1]) }
