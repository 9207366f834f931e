package wasmhost

import (
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
)

// ports carry out effects and receive notices.
type ports struct {
	effect.Ports
	host.Observer // receives only events that a core could have reported
}

// lost returns the reply to an effect whose outcome is unknown.
func lost(k abi.Kind, text string) (abi.Status, []byte) {
	switch k {
	case abi.KVCommit:
		return abi.Unknown, []byte(text)
	case abi.Fetch:
		return abi.NoResponse, abi.Append.FetchError(nil, host.FetchNetwork, text)
	}
	return abi.Unavailable, []byte(text)
}
