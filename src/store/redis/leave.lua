-- ARGV: keeper, number, how much to bury
-- The keeper will not be back: nobody needs to wait for it.
if is_stale(ARGV[1], ARGV[2]) then
	return STALE
end
redis.call('DEL', key('keeper', ARGV[1]))
bury(tonumber(ARGV[3]))
return 1
