package admin

import (
	"time"

	"github.com/verge-id/verge/core/operate"
)

// The module that an engine runs. The host of a server with the engine wasm serves this path, not the core.
// The types are here because they are part of the operators' API.
const (
	ModulePath = operate.Prefix + "module" // GET; POST with the module as the body

	// ModuleSignatureHeader of a POST contains the output of `verge module sign`.
	ModuleSignatureHeader = "Verge-Module-Signature"
)

// ModuleState is the response of GET ModulePath.
type ModuleState struct {
	Engine   string          `json:"engine"`             // native or wasm
	Active   *ModuleInUse    `json:"active,omitempty"`   // of the engine wasm
	Rejected *ModuleRejected `json:"rejected,omitempty"` // the last one
}

// ModuleInUse is the active module.
type ModuleInUse struct {
	Digest  string    `json:"digest"`            // SHA-256
	Version int64     `json:"version,omitempty"` // the version in the checked signature
	Source  string    `json:"source"`            // a file, built in, or activated by an operator
	Since   time.Time `json:"since"`
}

// ModuleRejected is a rejected module.
type ModuleRejected struct {
	Digest string    `json:"digest,omitempty"` // "" if the module could not be read
	Source string    `json:"source"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// ModuleActivated is the response of POST ModulePath.
type ModuleActivated struct {
	ModuleInUse
	Changed bool `json:"changed"` // false if it was already active
}
