-- Applies transactions of one partition, which have no item and no task in common. Each is applied or rejected
-- alone. Every read that can fail comes before the first write, because a script that fails half-way keeps
-- its writes. All writes of one kind are one call, because a call costs more than its work.
--
-- KEYS: names, expiries, due, tasks; then items.
-- ARGV: for each transaction a head of one byte each: whether to sweep, the number of checks, held, puts,
-- deletes, schedule and cancel, and the index in KEYS of each check, put and delete. The other arguments of
-- each of them follow, in this order.
-- Returns for each transaction 1, or the conflict: failed checks with their items, and lost leases.
local call, byte, sub = redis.call, string.byte, string.sub
local names, expiries, due, tasks = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local replies, sweep, leases, puts = {}, 0, 0, 0
-- The writes: the arguments of each call.
local named, values, ending, endless = {}, {}, {}, {}
local unnamed, removed = {}, {}
local bodies, taken, times = {}, {}, {}
local done, undue = {}, {}

local a, last = 1, #ARGV
while a <= last do
	local head = ARGV[a]
	local sweeps, checks, held, put, delete, schedule, cancel = byte(head, 1, 7)
	local found, lost
	for i = 1, checks do
		local item = call('GET', KEYS[byte(head, 7 + i)])
		local tx = item and sub(item, 11, 10 + (byte(item, 10) or 0)) or ''
		if tx ~= ARGV[a + i] then
			found, lost = found or {}, lost or {}
			if item then
				found[#found + 1] = i - 1
				found[#found + 1] = item
			end
		end
	end
	a = a + checks
	for i = 1, held do
		if call('HGET', tasks, '@' .. ARGV[a + 1]) ~= ARGV[a + 2] then
			found, lost = found or {}, lost or {}
			lost[#lost + 1] = i - 1
		end
		a = a + 2
	end
	sweep, leases = sweep + sweeps, leases + held

	if found then
		replies[#replies + 1] = {found, lost}
		a = a + 2 * put + 3 * schedule + cancel
	else
		replies[#replies + 1] = 1
		puts = puts + put
		for i = 1, put do
			local key, ends = KEYS[byte(head, 7 + checks + i)], ARGV[a + 2]
			local name, n = sub(key, #names + 2), #named
			named[n + 1], named[n + 2] = '0', name
			n = #values
			values[n + 1], values[n + 2], values[n + 3] = key, ARGV[a + 1], ends
			if ends == '' then
				endless[#endless + 1] = name
			else
				n = #ending
				ending[n + 1], ending[n + 2] = ends, name
			end
			a = a + 2
		end
		for i = 1, delete do
			local key = KEYS[byte(head, 7 + checks + put + i)]
			unnamed[#unnamed + 1], removed[#removed + 1] = sub(key, #names + 2), key
		end
		for i = 1, schedule do
			local id, n = ARGV[a + 1], #bodies
			bodies[n + 1], bodies[n + 2] = '=' .. id, ARGV[a + 2]
			taken[#taken + 1] = '@' .. id
			times[n + 1], times[n + 2] = ARGV[a + 3], id
			a = a + 3
		end
		for i = 1, cancel do
			local id, n = ARGV[a + i], #done
			done[n + 1], done[n + 2] = '=' .. id, '@' .. id
			undue[#undue + 1] = id
		end
		a = a + cancel
	end
	a = a + 1
end

-- A key of a wrong type makes the script fail here or in the first write. The
-- first write is to the names or, without puts and deletes, to the tasks.
-- The tasks were read above if the transaction holds one.
if puts + #removed > 0 then
	call('ZCARD', expiries)
	if leases == 0 and #times + #undue > 0 then
		call('HLEN', tasks)
	end
end
if #times + #undue > 0 then
	call('ZCARD', due)
end

local wrote = false
local function write(command, key, args)
	if #args > 0 then
		local n = call(command, key, unpack(args))
		wrote = true
		return n
	end
end
local function writes()
	write('ZADD', names, named)
	for i = 1, #values, 3 do
		if values[i + 2] == '' then
			call('SET', values[i], values[i + 1])
		else
			call('SET', values[i], values[i + 1], 'PXAT', values[i + 2])
		end
	end
	write('ZADD', expiries, ending)
	write('ZREM', expiries, endless)
	if #removed > 0 then
		write('ZREM', names, unnamed)
		call('ZREM', expiries, unpack(unnamed))
		call('DEL', unpack(removed))
	end
	if #bodies > 0 then
		if write('HSET', tasks, bodies) < #taken then -- a task existed, perhaps leased
			call('HDEL', tasks, unpack(taken))
		end
		call('ZADD', due, unpack(times))
	end
	if #done > 0 then
		write('HDEL', tasks, done)
		call('ZREM', due, unpack(undue))
	end

	if sweep > 0 and puts + #removed > 0 then
		local time = call('TIME')
		local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
		local expired = call('ZRANGEBYSCORE', expiries, '-inf', '(' .. now, 'LIMIT', '0', 64 * sweep + 8 * puts)
		if #expired > 0 then
			call('ZREM', names, unpack(expired))
			call('ZREM', expiries, unpack(expired))
		end
	end
end

-- One pcall around all writes costs less than one for each. The reply begins with the code of the error.
-- This code shows a client that its server has become a replica.
local ok, reason = pcall(writes)
if not ok then
	reason = type(reason) == 'table' and reason.err or reason -- a table since Redis 7
	return {err = wrote and 'VERGEHALF ' .. reason or reason}
end
return replies
