package wasmhost

// The causes of failures and the error of a closed engine, for tests in package wasmhost_test.
const (
	CauseMemory   = causeMemory
	CauseTrap     = causeTrap
	CauseDeadline = causeDeadline
	CauseProtocol = causeProtocol
	CauseHost     = causeHost
	CauseStart    = causeStart
)

var ErrClosed = errClosed
