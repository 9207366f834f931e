package admin

import (
	"time"

	"github.com/verge-id/verge/core/operate"
)

// BackupPath accepts a POST that creates a backup of the store. Like ModulePath it is served by the host: the
// core uses the store only through its port.
const BackupPath = operate.Prefix + "backup"

// StorePath reads and replaces the rows of a Worker's store. edge/workers/src/storeadmin.js serves it.
const StorePath = operate.Prefix + "store"

// BackupMade is the response of POST BackupPath.
type BackupMade struct {
	Path  string    `json:"path"` // of the new file, on the server
	Taken time.Time `json:"taken_at"`
	Items int       `json:"items"`
	Tasks int       `json:"tasks"`
	Bytes int64     `json:"bytes"`
}
