// Package certs keeps the certificate of a server's listeners up to date. [NewFiles] follows the files of an
// operator, and an [Authority] obtains a certificate by ACME. The methods TLS return the settings of a
// listener. The methods Follow run until their context is done.
//
// A new certificate applies to new connections, and open ones continue. If a new certificate cannot be used,
// the previous one stays in use, and the log and the metrics report the reason.
package certs
