-- Does one transaction. Reads everything that can fail before the first write,
-- because a script that fails half-way keeps what it has written.
--
-- KEYS: names and expiries, if something is put or deleted; due and tasks, if
-- something is held, scheduled or cancelled; then items.
-- ARGV: a head of one byte each: whether to sweep, the number of checks, held,
-- puts, deletes, schedule and cancel, and the index in KEYS of each check, put
-- and delete. The other arguments of each of them follow, in this order.
local call, byte, sub = redis.call, string.byte, string.sub
local head = ARGV[1]
local sweep, checks, held, puts, deletes, schedule, cancel = byte(head, 1, 7)
local names, expiries, due, tasks
local k, a = 7, 1
if puts + deletes > 0 then
	names, expiries, due, tasks = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
else
	due, tasks = KEYS[1], KEYS[2]
end

local found, lost
for i = 1, checks do
	local item = call('GET', KEYS[byte(head, k + i)])
	local tx = item and sub(item, 11, 10 + (byte(item, 10) or 0)) or ''
	if tx ~= ARGV[a + i] then
		found, lost = found or {}, lost or {}
		if item then
			found[#found + 1] = i - 1
			found[#found + 1] = item
		end
	end
end
k, a = k + checks, a + checks
for i = 1, held do
	if call('HGET', tasks, '@' .. ARGV[a + 1]) ~= ARGV[a + 2] then
		found, lost = found or {}, lost or {}
		lost[#lost + 1] = i - 1
	end
	a = a + 2
end
if found then
	return {found, lost}
end

-- A key of a wrong type makes the script fail here or in the first write. The
-- first write is to the names or, if nothing is put or deleted, to the tasks.
-- Who holds a task has read the tasks above.
if puts + deletes > 0 then
	call('ZCARD', expiries)
	if held == 0 and schedule + cancel > 0 then
		call('HLEN', tasks)
	end
end
if schedule + cancel > 0 then
	call('ZCARD', due)
end

local wrote = false
local function write()
	for i = 1, puts do
		local key, last = KEYS[byte(head, k + i)], ARGV[a + 2]
		local name = sub(key, #names + 2)
		call('ZADD', names, '0', name)
		wrote = true
		if last == '' then
			call('SET', key, ARGV[a + 1])
			call('ZREM', expiries, name)
		else
			call('SET', key, ARGV[a + 1], 'PXAT', last)
			call('ZADD', expiries, last, name)
		end
		a = a + 2
	end
	k = k + puts
	for i = 1, deletes do
		local key = KEYS[byte(head, k + i)]
		local name = sub(key, #names + 2)
		call('ZREM', names, name)
		wrote = true
		call('ZREM', expiries, name)
		call('DEL', key)
	end
	for i = 1, schedule do
		local id = ARGV[a + 1]
		local added = call('HSET', tasks, '=' .. id, ARGV[a + 2])
		wrote = true
		if added == 0 then -- it was there, perhaps leased
			call('HDEL', tasks, '@' .. id)
		end
		call('ZADD', due, ARGV[a + 3], id)
		a = a + 3
	end
	for i = 1, cancel do
		local id = ARGV[a + i]
		call('HDEL', tasks, '=' .. id, '@' .. id)
		wrote = true
		call('ZREM', due, id)
	end

	if sweep > 0 and puts + deletes > 0 then
		local time = call('TIME')
		local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
		local expired = call('ZRANGEBYSCORE', expiries, '-inf', '(' .. now, 'LIMIT', '0', 64 + 8 * puts)
		if #expired > 0 then
			call('ZREM', names, unpack(expired))
			call('ZREM', expiries, unpack(expired))
		end
	end
end

-- One pcall around all writes costs less than one for each. The reply begins with the code of the error,
-- by which a client sees that its server has become a replica.
local done, reason = pcall(write)
if not done then
	reason = type(reason) == 'table' and reason.err or reason -- a table since Redis 7
	return {err = wrote and 'VERGEHALF ' .. reason or reason}
end
return 1
