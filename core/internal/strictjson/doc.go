// Package strictjson reads JSON objects with limits, and writes flat ones.
//
// [Read] is for objects that Verge defines, and [ReadForeign] for those of other systems. Both reject an
// object with an invalid byte anywhere. [Writer] is faster than encoding/json, and smaller in a WebAssembly
// module.
package strictjson
