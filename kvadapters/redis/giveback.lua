-- Returns charges. A counter without a later charge has its previous value again.
--
-- KEYS: counters. ARGV: now; for each counter, the value before its charge (-1 if
-- there was none), and the value after it. All numbers are microseconds below 2^53.
local number = tonumber
local now = number(ARGV[1])
for k, key in ipairs(KEYS) do
	local before, after = number(ARGV[2 * k]), number(ARGV[2 * k + 1])
	local tat = number(redis.call('GET', key) or -1)
	if tat == after then -- not charged since
		tat = before
	elseif tat then
		tat = tat - (after - math.max(before, now))
	end
	if tat then
		local ttl = math.ceil((tat - now) / 1000) + 10000
		if tat < 0 or ttl < 1 then
			redis.call('DEL', key)
		else
			redis.call('SET', key, string.format('%.0f', tat), 'PX', ttl)
		end
	end
end
return 0
