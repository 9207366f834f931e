// Package modules runs the core as a WebAssembly module, and replaces the module while it serves. It
// adds this to package edge. It links the WebAssembly runtime, and package edge does not.
//
// A module comes from a file or from an operator ([Read], [New]). [Trust] defines which modules may run: the
// module with a given SHA-256, or modules that a key has signed ([Sign]), with a minimum version. A [Switch]
// runs one of them. Give [Switch.Open] to edge.Config as Engine, and [Switch.AdminEndpoint] as its endpoint
// for [Path]. Operators can then read and replace the module there, and [Switch.Reload] replaces it with the
// configured module.
//
// # Guarantees
//
//   - An untrusted module never runs, regardless of the sender.
//   - A module gets requests only after it is compiled and tested. If it is rejected, the active module stays
//     in use, and the response, the log and the operators' API have the reason.
//   - No request is lost when one module replaces another. Active requests finish in the old one.
//   - The operator token alone cannot reinstall an older module: a signature with a lower version than the
//     active module's is rejected.
//   - If a guest of a new module fails soon after the activation, the previous module is restored.
//   - Compiled modules that other users could have written are not used.
package modules
