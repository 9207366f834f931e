// Package integration holds who may use Verge and how: publishers, their integrations, their API keys,
// and whether an integration's webhook test has reported Ready. Directory stores all of that in the KV.
//
// Of a key only a hash is stored, and of a webhook secret only a sealed form. Both are shown once, when
// they are made.
package integration
