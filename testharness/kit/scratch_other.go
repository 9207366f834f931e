//go:build !linux

package kit

import "os"

// Scratch makes a directory for what a server under test writes. remove removes it.
func Scratch(name string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "verge-"+name+"-")
	return dir, func() { os.RemoveAll(dir) }, err
}
