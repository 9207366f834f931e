-- Calls each command of the other scripts once, so that a missing permission is found.
--
-- KEYS: a string, a zset, a hash.
redis.call('SET', KEYS[1], '1', 'PX', '1000')
redis.call('SET', KEYS[1], '1', 'PXAT', '9999999999999')
redis.call('GET', KEYS[1])
redis.call('ZADD', KEYS[2], '0', 'a')
redis.call('ZCARD', KEYS[2])
redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
redis.call('ZREM', KEYS[2], 'a')
redis.call('HSET', KEYS[3], 'a', '1')
redis.call('HGET', KEYS[3], 'a')
redis.call('HLEN', KEYS[3])
redis.call('HDEL', KEYS[3], 'a')
redis.call('TIME')
redis.call('DEL', KEYS[1])
return 1
