-- Charges all counters or none. Numbers are microseconds below 2^53.
--
-- KEYS: a counter each. ARGV: now, then cost and burst of each.
-- Returns the counters as they were, '' for one that is not known.
local now = tonumber(ARGV[1])
local before, after, fits = {}, {}, true
for i = 1, #KEYS do
	local cost, burst = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
	local tat = redis.call('GET', KEYS[i])
	if tat then
		before[i] = tat
		tat = tonumber(tat)
	else
		tat = 0
		before[i] = ''
	end
	after[i] = math.max(tat, now) + cost
	if after[i] > now + burst then
		fits = false
	end
end
if fits then
	for i = 1, #KEYS do
		-- A counter that now has overtaken means the same as none. It is kept
		-- ten seconds longer, for instances whose clocks lag; and no longer, so
		-- that one whose clock was set back does not wait for the old time.
		local ttl = string.format('%.0f', math.ceil((after[i] - now) / 1000) + 10000)
		redis.call('SET', KEYS[i], string.format('%.0f', after[i]), 'PX', ttl)
	end
end
return before
