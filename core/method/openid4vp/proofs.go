package openid4vp

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/method"
)

// zkFormat is the format of a mobile document whose elements a zero-knowledge proof shows (contract 56).
const zkFormat = "mso_mdoc_zk"

const (
	zeroKnowledgeName = "zero_knowledge"
	circuitsName      = "circuits"
	accept            = "accept"
	require           = "require"
)

// knownOfCircuit are the members of a circuit.
var knownOfCircuit = []string{"hash", "url", "file"}

// proofs are the settings of zero-knowledge proofs.
type proofs struct {
	zeroKnowledge string           // off, accept or require
	sources       []method.Circuit // of circuits
	circuits      []host.Circuit   // in the order of the settings
}

// circuitsIn returns the circuits of settings that are good.
func circuitsIn(c method.Config) []method.Circuit {
	o, _ := strictjson.Read(c.Settings)
	if mode, _ := o.Value(zeroKnowledgeName).Text(); mode != accept && mode != require {
		return nil
	}
	s, _ := parse(c)
	return s.sources
}

// readProofs reads whether proofs count, and their circuits. It adds the format of proofs to the formats.
func (s *settings) readProofs(r reader, dev bool) {
	s.zeroKnowledge = r.oneOf(zeroKnowledgeName, off, off, accept, require)
	before := len(*r.wrong)
	s.readCircuits(r, dev)
	good := len(*r.wrong) == before
	if s.zeroKnowledge == off {
		s.sources, s.circuits = nil, nil // they may stay, to switch proofs on again
		return
	}
	at := slices.Index(s.formats, mdocFormat)
	one := slices.ContainsFunc(s.circuits, func(c host.Circuit) bool { return c.Elements == 1 })
	switch {
	case at < 0:
		r.wrong.Add(
			zeroKnowledgeName,
			"only documents of the format %s have proofs; add it to %s, or set it to %q",
			mdocFormat,
			formatsName,
			off,
		)
		return
	case good && !one:
		r.wrong.Add(circuitsName, "a circuit for one element is missing; name its hash and its url or file")
	}
	s.formats = slices.Insert(slices.Clone(s.formats), at, zkFormat)
	if s.zeroKnowledge == require {
		if r.o.Value(formatsName).Present() && slices.Contains(s.formats, sdJWTFormat) {
			r.wrong.Add(formatsName, "%s has no proofs; leave it out, or set %s to %q", sdJWTFormat,
				zeroKnowledgeName, accept)
		}
		s.formats = []string{zkFormat}
	}
}

// checkRevocation rejects proofs if each document's status is required: a proof does not show the document.
func (s *settings) checkRevocation(r reader) {
	if s.zeroKnowledge != off && s.revocation == required {
		r.wrong.Add(
			zeroKnowledgeName,
			"a proof does not show which document it is about, so its status cannot be "+
				"looked up; set it to %q, or %s to %q",
			off,
			revocationName,
			ifPresent,
		)
	}
}

// readCircuits reads the circuits.
func (s *settings) readCircuits(r reader, dev bool) {
	v := r.o.Value(circuitsName)
	all, ok := v.List()
	if v.Present() && !ok || len(all) > len(host.Circuits()) {
		r.wrong.Add(
			circuitsName,
			"it must be a list of tables, [[methods.openid4vp.%s]], of at most %d circuits",
			circuitsName,
			len(host.Circuits()),
		)
		return
	}
	for n, v := range all {
		member := circuitsName + "." + strconv.Itoa(n+1)
		o, ok := v.Object()
		if !ok {
			r.wrong.Add(member, "it must be a table with hash, and url or file")
			continue
		}
		l := reader{member + ".", o, r.wrong}
		l.checkNames(knownOfCircuit)
		c := method.Circuit{Hash: l.text("hash")}
		known, ok := host.CircuitOf(c.Hash)
		if !ok || slices.Contains(s.circuits, known) {
			l.add(
				"hash",
				"%q is no circuit that Verge knows, or occurs twice; versions 6 and 7 are known",
				c.Hash,
			)
		}
		c.URL, c.File = l.source("circuit", dev)
		s.sources, s.circuits = append(s.sources, c), append(s.circuits, known)
	}
}

// isMobile reports whether a format is one of mobile documents.
func isMobile(format string) bool { return format != sdJWTFormat }

// offered returns the circuits for statements of at most so many elements.
func (p proofs) offered(elements int) []host.Circuit {
	return slices.DeleteFunc(
		slices.Clone(p.circuits),
		func(c host.Circuit) bool { return c.Elements > elements },
	)
}

// provable returns the elements that a request without alternatives asks for. A wallet can prove as many as a
// circuit has, so others are left out.
func (p proofs) provable(of profile, age int) []string {
	names := of.names(age)
	most := 0
	for _, c := range p.offered(len(names)) {
		most = max(most, c.Elements)
	}
	if p.zeroKnowledge == off || most == len(names) {
		return names
	}
	if len(of.always) > 0 && of.always[0] > age {
		// Every document has this element, and many have no other one.
		return names[1 : 1+most]
	}
	return names[:most]
}

// systems returns the circuits for one element, for DCQL. Google's wallet expects these members.
func (p proofs) systems() (all []map[string]any) {
	for _, c := range p.offered(1) {
		all = append(all, map[string]any{"id": c.Name, "system": mdoc.ZKSystem, "circuit_hash": c.Name,
			"num_attributes": c.Elements, "version": c.Version, "block_enc_hash": c.Hash,
			"block_enc_sig": c.Signature})
	}
	return all
}

// formatOf returns the format of a response by org-iso-mdoc, which can be either of two.
func (o *openID) formatOf(response []byte) (string, error) {
	switch {
	case slices.Contains(o.settings.formats, zkFormat) && mdoc.HasZKDocuments(response):
		return zkFormat, nil
	case o.settings.zeroKnowledge == require:
		return "", rejected("zk_missing")
	}
	return mdocFormat, nil
}

// rounding is the maximum difference between the time of a proof and the clock. Wallets round the time, to
// the end of the day for example, so that it does not link two proofs.
const rounding = 24*time.Hour + host.ClockMargin

// verifyProof returns the content of a document with a zero-knowledge proof. The error is a *mdoc.Rejection,
// or the host's, or a *host.FetchError if the proof cannot be checked now.
func (o *openID) verifyProof(ctx context.Context, response []byte, ask mdoc.Ask) (
	p mdoc.Proof, circuit string, err error,
) {
	d, err := mdoc.ReadZKDocument(response)
	if err != nil {
		return p, "", err
	}
	if d.Circuit = circuitOf(o.settings.circuits, d.Circuit); d.Circuit == "" {
		return p, "", &mdoc.Rejection{Reason: "zk_circuit"}
	}
	if d.Time.Sub(ask.Now).Abs() > rounding {
		return p, "", &mdoc.Rejection{Reason: "zk_timestamp"}
	}
	p, rejected, err := ask.VerifyZK(ctx, d, func(ctx context.Context, s host.ProofStatement, proof []byte) (
		bool, string, error) {
		shown, why, err := o.host.VerifyProof(ctx, s, proof)
		if err != nil {
			err = &host.FetchError{Reason: host.FetchUnavailable,
				Err: fmt.Errorf("openid4vp: proof not verified: %w", err)}
		}
		return shown, why, err
	})
	if rejected != "" {
		o.host.Log.WarnContext(ctx, "proof rejected", "method", o.name, "reason", rejected)
	}
	return p, d.Circuit, err
}

// circuitOf returns the name of the circuit that has the zkSystemId of a response. The id is the name, which
// requests offer, or the label that wallets such as Multipaz have for the circuit. "": it is none of these.
func circuitOf(circuits []host.Circuit, id string) string {
	for _, c := range circuits {
		label := fmt.Sprintf("%s_%d_%d_%d_%d_%s",
			mdoc.ZKSystem, c.Version, c.Elements, c.Hash, c.Signature, c.Name)
		if id == c.Name || id == label {
			return c.Name
		}
	}
	return ""
}

// provenBy is the prefix of the Trust of a verdict by a proof. The name of the circuit and the trust anchor
// follow.
const provenBy = "zk."

// trustOf returns the Trust of a verdict: the anchor, and the circuit of a proof. A proof shows less than a
// document, so its verdict ends with the setting, too.
func trustOf(p mdoc.Proof, circuit string) string {
	if circuit == "" {
		return p.Trust()
	}
	return provenBy + circuit + "." + p.Trust()
}

// anchorIn returns the anchor of a Trust. It is not ok if the Trust is of a proof that no longer counts.
func (p proofs) anchorIn(trust string) (anchor string, ok bool) {
	rest, proven := strings.CutPrefix(trust, provenBy)
	if !proven {
		return trust, true
	}
	circuit, anchor, _ := strings.Cut(rest, ".")
	return anchor, circuitOf(p.circuits, circuit) != ""
}
