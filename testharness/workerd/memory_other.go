//go:build !linux

package workerd

// inMemory is where files cost no disk: nowhere that is known.
func inMemory() string { return "" }
