package effect

// ErrExcessive is errExcessive for tests in package effect_test.
var ErrExcessive = errExcessive
