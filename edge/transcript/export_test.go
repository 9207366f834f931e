package transcript

// ErrFormat is errFormat for tests in package transcript_test.
var ErrFormat = errFormat
