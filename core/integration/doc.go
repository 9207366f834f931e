// Package integration holds who may use Verge and how: publishers, their integrations, their API keys,
// and whether an integration's webhook test has reported Ready. Directory stores all of that in the KV.
//
// What people change is saved by version: who has read an older one learns that, and changes nothing. What
// the configuration file names (Site) only the file changes. What is archived stays, because sessions of it
// may be under way. An entry of the audit travels in the commit of its change.
//
// Of a key only a hash is stored, and of a webhook secret only a sealed form. Both are shown once, when
// they are made.
package integration
