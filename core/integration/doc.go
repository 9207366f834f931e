// Package integration has who may use Verge and how: publishers, their
// integrations, their API keys, and whether an integration's webhook test
// has reported Ready. Directory is the store of all of it, over the KV.
//
// Of a key only a hash is kept, of a webhook secret only a sealed form; both
// are shown once, when they are made.
package integration
