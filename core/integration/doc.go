// Package integration stores publishers, their integrations, their API keys, and whether an integration's
// webhook test has reported Ready. Use a Directory to read and change them in the KV.
//
// Updates are versioned: an update based on an older version returns ErrStale. Publishers and integrations of
// the configuration file (Site) can only be changed in the file. Archived ones are kept, because they may
// have active sessions. An audit entry is written in the commit of its change.
//
// Keys are stored as hashes, and webhook secrets in sealed form. Both are shown once, when they are created.
package integration
