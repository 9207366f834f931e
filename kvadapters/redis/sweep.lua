-- Removes expired names from the index.
--
-- KEYS: names, expiries. ARGV: how many at most.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local expired = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. now, 'LIMIT', '0', ARGV[1])
if #expired > 0 then
	redis.call('ZREM', KEYS[1], unpack(expired))
	redis.call('ZREM', KEYS[2], unpack(expired))
end
return #expired
