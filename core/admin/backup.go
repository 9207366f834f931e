package admin

import "time"

// BackupPath takes a POST that makes a backup of the store. Like ModulePath it is the host's: the core knows
// its store by the port only.
const BackupPath = prefix + "backup"

// BackupMade answers POST BackupPath.
type BackupMade struct {
	Path  string    `json:"path"` // of the new file, on the server
	Taken time.Time `json:"taken_at"`
	Items int       `json:"items"`
	Tasks int       `json:"tasks"`
	Bytes int64     `json:"bytes"`
}
