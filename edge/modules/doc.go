// Package modules runs the core as a WebAssembly module, and replaces the module while it serves. It
// adds this to package edge. It links the WebAssembly runtime, and package edge does not.
//
// A module comes from a file or from an operator ([Read], [New]). [Trust] says which modules may run:
// the one with a given SHA-256, or those that a key has signed ([Sign]), from some
// version on. A [Switch] runs one of them. Give [Switch.Open] to edge.Config as Engine, and
// [Switch.AdminEndpoint] as the one for [Path]. Operators can then see and replace the module there, and
// [Switch.Reload] replaces it by the module that is configured now.
//
// # What is promised
//
//   - A module that is not trusted never runs, whoever sends it.
//   - A module takes requests only after it is compiled and tested. If it is refused, the module in use
//     goes on, and the answer, the log and the operators' API say why.
//   - No request is lost when one module replaces another. Requests under way end in the old one.
//   - The operator token alone cannot bring back an older module: one whose signature says a lower
//     version than that of the module in use is refused.
//   - If a guest of a new module fails soon after it was activated, the module before takes the
//     requests again.
//   - Compiled modules that others could have written are not used.
package modules
