// Package keyring reads and writes the file with the key ring of a service (contract 16). With its keys, the
// service seals the tokens that it gives to browsers and publishers, and signs its records.
//
// [Generate] creates a ring, [File.Rotate] adds a key, and [File.Retire] removes one. [File.Ring] returns the
// sealer of one instance; package keyset returns one for each instance of a fleet.
//
// Guaranteed: every later release reads the files of this one, and opens their tokens.
package keyring
