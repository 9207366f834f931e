package conformance_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/internal/methodtest"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wallettest"
)

// circuitFolder has the circuits that Google has published. They are no part of the repository.
const circuitFolder = "../../../shared/vectors/longfellow"

// Circuits for one element.
const (
	circuit7 = "8d079211715200ff06c5109639245502bfe94aa869908d31176aae4016182121"
	circuit6 = "137e5a75ce72735a37c8a72da1a8a0a5df8d13365c2ae3d2c2bd6a0e7197c7c6"
)

// externalProver returns a prover of google/longfellow-zk (see CONTRIBUTING.md), and the settings of its
// circuits. A test without it is skipped.
func externalProver(
	t *testing.T,
) (prove func(wallettest.ProofTask) ([]byte, error), circuits []map[string]any) {
	t.Helper()
	program := os.Getenv("VERGE_LONGFELLOW_PROVER")
	if program == "" {
		t.Skip("SKIP: VERGE_LONGFELLOW_PROVER is not set to a program that proves by google/longfellow-zk")
	}
	folder, err := filepath.Abs(circuitFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{circuit7, circuit6} {
		file := filepath.Join(folder, hash+".circuit.zst")
		if _, err := os.Stat(file); err != nil {
			t.Skipf("SKIP: %v", err)
		}
		circuits = append(circuits, map[string]any{"hash": hash, "file": file})
	}
	return wallettest.ExternalProver(program, folder), circuits
}

// inOrder writes an IssuerSignedItem with the identifier right before the value, as issuers do. The circuits
// of version 6 find no others.
func inOrder(part wallettest.Part, i cbor.Item) cbor.Item {
	if part != wallettest.PartItem {
		return i
	}
	raw := []byte{0xa4} // a map of four
	for _, name := range []string{"digestID", "random", "elementIdentifier", "elementValue"} {
		raw = append(append(raw, cbor.Text(name).Raw()...), i.Member(name).Raw()...)
	}
	item, err := cbor.Read(raw, cbor.Options{Any: true})
	if err != nil {
		panic(err) // parts of an item that was read
	}
	return item
}

// TestZeroKnowledge walks sessions with a wallet that proves an age by Google's own prover, by each protocol
// and with both versions of the circuits (contract 56). False statements and old proofs complete nothing.
func TestZeroKnowledge(t *testing.T) {
	long.Skip(t, "TestZeroKnowledge")
	prove, circuits := externalProver(t)
	h, wallet := openWallet(t, map[string]any{"profile": "mdl", "client_id_prefix": "x509_hash",
		"zero_knowledge": "require", "circuits": circuits, "browser": walletProtocolsOfBrowsers},
		"private_key", "reader_key")
	wallet.Prove = prove
	w := &walletFixture{Harness: h, wallet: wallet}
	version6 := func(task wallettest.ProofTask) ([]byte, error) {
		task.Circuit = circuit6
		return prove(task)
	}
	for _, c := range []struct {
		name, by, status string
		prove            func(wallettest.ProofTask) ([]byte, error)
		edit             func(*wallettest.ZKResponse)
		elements         map[string]any
		reason           string
	}{
		{name: "iso", by: "org-iso-mdoc", status: "COMPLETED"},
		{name: "version 6", by: "org-iso-mdoc", status: "COMPLETED", prove: version6,
			edit: func(z *wallettest.ZKResponse) { z.Circuit = circuit6 }},
		{name: "unsigned", by: "openid4vp-v1-unsigned", status: "COMPLETED"},
		{name: "signed", by: "openid4vp-v1-signed", status: "COMPLETED"},
		{name: "too young", by: "org-iso-mdoc", status: "FAILED",
			elements: map[string]any{"age_over_18": false}},
		{name: "too young, with a false value", by: "org-iso-mdoc", status: "PENDING", reason: "zk_proof",
			elements: map[string]any{"age_over_18": false},
			edit: func(z *wallettest.ZKResponse) {
				e := wallettest.Presentation{}
				e.Set("age_over_18", true)
				z.Elements = e.Elements
			}},
		{name: "another circuit", by: "org-iso-mdoc", status: "PENDING", reason: "zk_proof",
			edit: func(z *wallettest.ZKResponse) { z.Circuit = circuit6 }},
		{name: "an old proof", by: "org-iso-mdoc", status: "PENDING", reason: "zk_timestamp",
			edit: func(z *wallettest.ZKResponse) { z.Time = z.Time.AddDate(0, 0, -3) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			wallet.Elements = map[string]any{"age_over_18": true, "family_name": "Muster"}
			if c.elements != nil {
				wallet.Elements = c.elements
			}
			wallet.EditProof, wallet.Prove = c.edit, prove
			if c.prove != nil {
				wallet.Prove = c.prove
			}
			logged := len(h.Logs())
			started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
			page := h.Open(started.RedirectURL).Submit("begin")
			w.answer(
				t,
				page,
				walletProtocol{name: c.by},
				func(p *wallettest.Presentation) { p.Edit = inOrder },
			)
			if status := h.Reconcile(started.SessionID).Text("status"); status != c.status {
				t.Errorf("contract 56: the session is %s, want %s: %s", status, c.status, h.Logs()[logged:])
			}
			if log := h.Logs()[logged:]; c.reason != "" && !strings.Contains(log, `"reason":"`+c.reason+`"`) {
				t.Errorf("contract 56: the log lacks %s: %s", c.reason, log)
			}
		})
	}
	t.Run("by link", func(t *testing.T) {
		wallet.EditProof, wallet.Prove = nil, prove
		wallet.Elements = map[string]any{"age_over_18": true}
		started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
		page := h.Open(started.RedirectURL).Submit("begin")
		wallet.Client = &http.Client{Transport: methodtest.Carrier{Page: page}}
		if reply, err := wallet.Answer(t.Context(), page.Code); err != nil || reply.Status != http.StatusOK {
			t.Fatalf("contract 56: %d %s, %v", reply.Status, reply.Body, err)
		}
		if done := page.LoadAgain(); done.Callback == nil {
			t.Errorf("contract 56: a %s page", done.Kind)
		}
	})
}
