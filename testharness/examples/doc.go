// Package examples has small publishers: a shop with Express, the same shop with Flask, and a static page
// with a public key. README.md explains how to run them. Its tests do a verification with each.
package examples
