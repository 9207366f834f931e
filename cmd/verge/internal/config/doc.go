// Package config reads the configuration of a server: a TOML file, and the flags and environment variables
// that override it. A command embeds [Flags] and calls [Flags.Plan], which returns the [Plan] to run.
// [System] has the files, variables and clock that are read. [ReadSite], [ReadMethods] and [StoreFlags] read
// a part of a configuration for the commands that need no more. [ReadPrivate], [WritePrivate] and
// [SecretFile] apply the rules of files with secrets.
//
// Reading has no side effects: it opens no listener and no store. An error lists all mistakes of a
// configuration, so that one correction is enough, and never contains a secret. Each value is checked by the
// package that uses it, in a method Validate or a function Check. This package checks the notation, and the
// files and addresses that are named.
package config
