//go:build !linux

package testenv

import "os"

// Scratch creates a directory for the data of a server under test. remove deletes it.
func Scratch(name string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "verge-"+name+"-")
	return dir, func() { os.RemoveAll(dir) }, err
}
