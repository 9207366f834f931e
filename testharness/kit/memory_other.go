//go:build !linux

package kit

// InMemory is a directory in memory. None is known here.
func InMemory() string { return "" }
