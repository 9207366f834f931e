-- Counts requests in order. For each request it charges all counters or none.
-- Numbers are microseconds below 2^53.
--
-- KEYS: counters. ARGV: for each request, now and the number of its charges; for
-- each charge, the index in KEYS, the cost and the burst.
-- Returns for each charge the previous value of the counter, or -1 if there was none.
local number, max = tonumber, math.max
local tats, ttls, before = {}, {}, {}
local a, last = 1, #ARGV
while a < last do
	local now, stop = number(ARGV[a]), a + 3 * number(ARGV[a + 1]) + 1
	local fits = true
	for c = a + 2, stop, 3 do
		local k = number(ARGV[c])
		local tat = tats[k]
		if not tat then
			tat = number(redis.call('GET', KEYS[k]) or -1) or
				error('WRONGTYPE the counter ' .. KEYS[k] .. ' is no number')
			tats[k] = tat
		end
		before[#before + 1] = tat
		fits = fits and max(tat, now) + number(ARGV[c + 1]) <= now + number(ARGV[c + 2])
	end
	if fits then
		for c = a + 2, stop, 3 do
			local k = number(ARGV[c])
			local tat = max(tats[k], now) + number(ARGV[c + 1])
			-- A counter before now means the same as no counter. It is kept ten
			-- seconds longer for instances whose clocks lag. Longer would make an
			-- instance whose clock was set back wait for the old time.
			tats[k], ttls[k] = tat, math.ceil((tat - now) / 1000) + 10000
		end
	end
	a = stop + 1
end
for k, ttl in pairs(ttls) do
	redis.call('SET', KEYS[k], string.format('%.0f', tats[k]), 'PX', ttl)
end
return before
