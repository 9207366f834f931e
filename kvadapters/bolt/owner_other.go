//go:build !unix

package bolt

import "os"

// sameOwner does nothing: a new file inherits its access from its directory.
func sameOwner(string, os.FileInfo) error { return nil }
