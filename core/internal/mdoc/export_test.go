package mdoc

const (
	MaxTried    = maxTried
	MaxVerified = maxVerified
)
