-- One transaction. All that can fail is read before the first write, because
-- a script that fails half-way keeps what it has written.
--
-- KEYS: names, expiries, due, tasks, then the item of each check, put, delete.
-- ARGV: length of what begins an item's key, how many names to sweep, number
-- of checks, held, puts, deletes, schedule, cancel; then their arguments.
local call = redis.call
local items, sweep = tonumber(ARGV[1]), tonumber(ARGV[2])
local checks, held, puts = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local deletes, schedule, cancel = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local k, a = 4, 8

local found, lost, failed = {}, {}, false
for i = 1, checks do
	local item = call('GET', KEYS[k + i])
	local tx = ''
	if item then
		tx = string.sub(item, 11, 10 + (string.byte(item, 10) or 0))
	end
	if tx ~= ARGV[a + i] then
		failed = true
		if item then
			found[#found + 1] = i - 1
			found[#found + 1] = item
		end
	end
end
k, a = k + checks, a + checks
for i = 1, held do
	local lease = call('HGET', KEYS[4], '@' .. ARGV[a + 1])
	if not lease or lease ~= ARGV[a + 2] then
		failed = true
		lost[#lost + 1] = i - 1
	end
	a = a + 2
end
if failed then
	return {found, lost}
end

if puts + deletes > 0 then -- a wrong type fails here
	call('ZCARD', KEYS[1])
	call('ZCARD', KEYS[2])
end
if schedule + cancel > 0 then
	call('ZCARD', KEYS[3])
	call('HLEN', KEYS[4])
end

local wrote = false
local function write(...)
	local reply = redis.pcall(...)
	if type(reply) == 'table' and reply.err then
		if wrote then
			error('VERGEHALF ' .. reply.err)
		end
		error(reply.err)
	end
	wrote = true
end

for i = 1, puts do
	local key, item, last = KEYS[k + i], ARGV[a + 1], ARGV[a + 2]
	local name = string.sub(key, items + 1)
	if last == '' then
		write('SET', key, item)
		write('ZREM', KEYS[2], name)
	else
		write('SET', key, item, 'PXAT', last)
		write('ZADD', KEYS[2], last, name)
	end
	write('ZADD', KEYS[1], '0', name)
	a = a + 2
end
k = k + puts
for i = 1, deletes do
	local name = string.sub(KEYS[k + i], items + 1)
	write('DEL', KEYS[k + i])
	write('ZREM', KEYS[1], name)
	write('ZREM', KEYS[2], name)
end
for i = 1, schedule do
	local id = ARGV[a + 1]
	write('HSET', KEYS[4], '=' .. id, ARGV[a + 2])
	write('HDEL', KEYS[4], '@' .. id)
	write('ZADD', KEYS[3], ARGV[a + 3], id)
	a = a + 3
end
for i = 1, cancel do
	local id = ARGV[a + i]
	write('ZREM', KEYS[3], id)
	write('HDEL', KEYS[4], '=' .. id, '@' .. id)
end

if sweep > 0 and puts + deletes > 0 then
	local time = call('TIME')
	local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
	local expired = call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. now, 'LIMIT', '0', ARGV[2])
	if #expired > 0 then
		write('ZREM', KEYS[1], unpack(expired))
		write('ZREM', KEYS[2], unpack(expired))
	end
end
return 1
