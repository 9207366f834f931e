-- Leases tasks: moves their score to the end of the lease and notes the holder.
-- Reads everything before the first write.
--
-- KEYS: names, expiries, due, tasks.
-- ARGV: now, end of the lease, n, the number of names to sweep, the claim's id.
-- Returns the time of the next task ('' for none), then the id and the body of each task.
local call = redis.call
local due, reply = {}, {''}
-- Usually no task is due, and reading the first task is enough.
local next = call('ZRANGEBYSCORE', KEYS[3], '-inf', '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
if #next > 0 and tonumber(next[2]) <= tonumber(ARGV[1]) then
	due = call('ZRANGEBYSCORE', KEYS[3], '-inf', ARGV[1], 'LIMIT', '0', ARGV[3])
	next = call('ZRANGEBYSCORE', KEYS[3], '-inf', '+inf', 'WITHSCORES', 'LIMIT', #due, '1')
end
if #next > 0 then
	reply[1] = next[2]
end
for i = 1, #due do
	local id = due[i]
	local task = call('HGET', KEYS[4], '=' .. id)
	if not task then
		error('VERGEDAMAGED the task ' .. id .. ' has a due time but no body')
	end
	reply[2 * i] = id
	reply[2 * i + 1] = task
end

local expired = {}
if ARGV[4] ~= '0' then
	local time = call('TIME')
	local clock = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
	expired = call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. clock, 'LIMIT', '0', ARGV[4])
	if #expired > 0 then
		call('ZCARD', KEYS[1])
	end
end

if #due > 0 then
	local scores, leases = {}, {} -- in one call each, because a call costs more than its work
	for i = 1, #due do
		local id = due[i]
		scores[2 * i - 1], scores[2 * i] = ARGV[2], id
		leases[2 * i - 1], leases[2 * i] = '@' .. id, ARGV[5] .. '-' .. i
	end
	call('ZADD', KEYS[3], unpack(scores))
	call('HSET', KEYS[4], unpack(leases))
end
if #expired > 0 then
	call('ZREM', KEYS[1], unpack(expired))
	call('ZREM', KEYS[2], unpack(expired))
end
return reply
