-- ARGV: run
if not redis.call('ZSCORE', 'warder:revoked', ARGV[1]) then
	redis.call('ZADD', 'warder:revoked', redis.call('INCR', 'warder:revoked_last'), ARGV[1])
end
return 1
