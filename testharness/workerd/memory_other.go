//go:build !linux

package workerd

// inMemory is a directory in memory. None is known here.
func inMemory() string { return "" }
