package redis

// MaxClaim is maxClaim for tests in package redis_test.
const MaxClaim = maxClaim
