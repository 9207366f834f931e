package admin

import (
	"time"

	"github.com/verge-id/verge/core/operate"
)

// BackupPath takes a POST that makes a backup of the store. Like ModulePath it is the host's: the core knows
// its store by the port only.
const BackupPath = operate.Prefix + "backup"

// BackupMade answers POST BackupPath.
type BackupMade struct {
	Path  string    `json:"path"` // of the new file, on the server
	Taken time.Time `json:"taken_at"`
	Items int       `json:"items"`
	Tasks int       `json:"tasks"`
	Bytes int64     `json:"bytes"`
}
