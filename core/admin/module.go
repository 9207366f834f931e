package admin

import (
	"time"

	"github.com/verge-id/verge/core/operate"
)

// The module that an engine runs. The core does not know that it is one: its host answers this path, for a
// server with the engine wasm. The wire form is here because it is part of the operators' API.
const (
	ModulePath = operate.Prefix + "module" // GET; POST with the module as the body

	// ModuleSignatureHeader of a POST has what `verge module sign` writes.
	ModuleSignatureHeader = "Verge-Module-Signature"
)

// ModuleState answers GET ModulePath.
type ModuleState struct {
	Engine   string          `json:"engine"`             // native or wasm
	Active   *ModuleInUse    `json:"active,omitempty"`   // of the engine wasm
	Rejected *ModuleRejected `json:"rejected,omitempty"` // the last one
}

// ModuleInUse is a module that takes requests.
type ModuleInUse struct {
	Digest  string    `json:"digest"`            // SHA-256
	Version int64     `json:"version,omitempty"` // that a signature says which was checked
	Source  string    `json:"source"`            // a file, built in, or that an operator activated it
	Since   time.Time `json:"since"`
}

// ModuleRejected is a module that was refused.
type ModuleRejected struct {
	Digest string    `json:"digest,omitempty"` // "": it could not even be read
	Source string    `json:"source"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// ModuleActivated answers POST ModulePath.
type ModuleActivated struct {
	ModuleInUse
	Changed bool `json:"changed"` // it was not active already
}
