// Package modules has the core run as a WebAssembly module, and the module
// replaced while it serves. It links the WebAssembly runtime; package edge, to
// which it adds this, does not.
//
// A module comes from a file or from an operator ([Read], [New]). [Trust] says
// which ones may run: one SHA-256, or those that a key has signed ([Sign],
// [ParseSignature]), from some version on. A [Switch] runs one of them: hand
// [Switch.Open] to edge.Config as Engine, and [Switch.Answer] as the stream of
// [Path]. Operators then see and replace the module there, and
// [Switch.Reload] replaces it by the one that is configured now.
//
// # What is promised
//
//   - A module that is not trusted never runs, whoever sends it.
//   - A module takes requests only once it is compiled and tested. If it is
//     refused, the one in use goes on, and everything that is asked says why.
//   - No request is lost when one module takes the place of another: those
//     under way end in the old one.
//   - With the operator token alone, modules go forward: one whose signature
//     says a lower version than that of the one in use is refused.
//   - If a guest of a new module fails soon after it was activated, the module
//     before takes the requests again.
//   - Compiled modules that others could have written are not used.
package modules
