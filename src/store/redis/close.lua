-- ARGV: keeper, number, run
if is_stale(ARGV[1], ARGV[2]) then
	return STALE
end
drop_link(ARGV[3], ARGV[1])
return 1
