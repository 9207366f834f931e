// Package longfellow verifies zero-knowledge proofs about mobile documents: those of Google's Longfellow
// system ("longfellow-libzk-v1", draft-google-cfrg-libzk), which wallets send for age checks. A proof shows
// that an issuer has signed a document with certain elements, that the document is valid at a time, and that
// the device of the document has signed this session. It shows nothing else, so two proofs cannot be linked.
//
// Use [Open] once per circuit and process, and [Circuit.Verify] per proof:
//
//	circuit, err := longfellow.Open(name, file)
//	...
//	err = circuit.Verify(&longfellow.Statement{Issuer: key, SessionTranscript: transcript,
//		DocType: "org.iso.18013.5.1.mDL", Attributes: attributes, Time: now}, proof)
//
// # Guarantees
//
// Verify returns nil only if the proof shows the statement, except with the probability for which the
// circuits were made: about 2^-86 for version 6, and 2^-109 for version 7. RATIONALE.md lists the checks. The
// caller checks the rest: the issuer's certificate, the time against the clock, the session, and the meaning
// of the elements. [Statement] lists the limits of the circuits.
//
// # Limits
//
// A circuit comes from the operator, and its name is a hash of its content. Open rejects files above
// [MaxCircuitFile], more than 12 million terms in 64 layers, and layers of more than 2^20 wires. It uses
// 100 MB at most, and keeps 2 bytes per term: 17 MB for the largest deployed circuits.
//
// A proof comes from anyone. Verify rejects more than [host.MaxProof] bytes before it reads them. The circuit
// determines every other size, so neither the time nor the memory depends on the proof's content. A proof
// whose columns are not in its commitment is rejected after some milliseconds. Any other takes the full time,
// about 0.6 s of a processor, and 60 MB. [Set] limits the processors of all verifications together.
//
// # Processors
//
// GF(2^128) is multiplied by the instruction PCLMULQDQ on amd64, if the processor has it. The build tag
// purego leaves that out; a verification then takes three times as long. A verification uses one processor,
// and a second one while a slot of its [Set] is free.
package longfellow
