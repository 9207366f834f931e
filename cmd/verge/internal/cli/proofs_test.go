package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/wallettest"
)

// circuitOne is the circuit for one element of version 7.
const circuitOne = "8d079211715200ff06c5109639245502bfe94aa869908d31176aae4016182121"

// circuitFile returns the path of a circuit that Google has published. A test without it is skipped.
func circuitFile(t *testing.T) string {
	t.Helper()
	file, err := filepath.Abs("../../../../../shared/vectors/longfellow/" + circuitOne + ".circuit.zst")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Skipf("SKIP: %v", err)
	}
	return file
}

// provenWallet returns the configuration of a wallet method with proofs.
func (s *trust) provenWallet(mode, file string) string {
	return s.walletOf(
		"issuer.pem",
	) + fmt.Sprintf(
		"zero_knowledge = %q\n[[methods.openid4vp.circuits]]\nhash = %q\n"+
			"file = %q\n",
		mode,
		circuitOne,
		file,
	)
}

// TestTrust_Proofs walks the binary with a wallet that proves by Google's own prover (contract 56). A passkey
// from a proof counts only while proofs do.
func TestTrust_Proofs(t *testing.T) {
	long.Skip(t, "TestTrust_Proofs")
	program := os.Getenv("VERGE_LONGFELLOW_PROVER")
	if program == "" {
		t.Skip("SKIP: VERGE_LONGFELLOW_PROVER is not set to a program that proves by google/longfellow-zk")
	}
	file := circuitFile(t)
	for _, name := range []string{"native", "wasm"} {
		t.Run(name, func(t *testing.T) {
			engine := ""
			if name == "wasm" {
				g := newGuests(t)
				module := g.put("verge.wasm", testenv.Module(t))
				g.compile(module)
				engine = g.section(module, "module_sha256 = \""+digestOf(testenv.Module(t))+"\"")
			}
			s := newTrust(t, engine)
			s.prove = wallettest.ExternalProver(program, filepath.Dir(file))
			s.serve(s.provenWallet("require", file))
			b := s.begins(s.first)
			b.answered()
			b.collects()
			b.want("contract 56: a proof", "COMPLETED")
			b.makesPasskey()

			again := s.begins(s.first)
			again.usesPasskey()
			again.want("contract 56: a passkey from a proof", "COMPLETED")

			s.serve(s.provenWallet("off", file))
			later := s.begins(s.first)
			later.usesPasskey()
			later.want("contract 56: a passkey from a proof after proofs were switched off", "PENDING")
		})
	}
}

// A service starts without its circuits, reports it, and its other methods work (contract 56).
func TestServe_MissingCircuit(t *testing.T) {
	t.Parallel()
	s := newTrust(t, "")
	s.serve(s.provenWallet("accept", "/is-not-here"))
	wait.Until(t, "the missing circuit is reported", func() bool {
		return strings.Contains(s.in.logs.String(), "circuit not opened")
	})
	b := s.begins(s.first)
	b.answered() // with the document
	b.collects()
	b.want("contract 56: a document instead of a proof", "COMPLETED")
}

func TestMethodCircuits(t *testing.T) {
	p, out, errs := testProgram()
	write := func(name, content string) {
		if err := afero.WriteFile(p.FS, name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("/issuer.pem", string(wallettest.NewIssuer(wallettest.IssuerConfig{}).PEM()))
	write("/damaged", "no circuit")
	configure := func(mode, file string) {
		write(
			"/verge.toml",
			fmt.Sprintf("[[methods]]\nname = \"wallet\"\nkind = \"openid4vp\"\n[methods.openid4vp]\n"+
				"profile = \"eu-av\"\ntrust_anchors = [\"/issuer.pem\"]\nzero_knowledge = %q\n"+
				"[[methods.openid4vp.circuits]]\nhash = %q\nfile = %q\n", mode, circuitOne, file),
		)
	}
	run := func(more ...string) int {
		args := append([]string{"method", "circuits", "wallet", "--config", "/verge.toml"}, more...)
		return run(context.Background(), args, p)
	}
	for _, c := range []struct {
		mode, file string
		code       int
		says       string
	}{
		{"off", "/damaged", exitUsage, "accepts no zero-knowledge proofs"},
		{"accept", "/damaged", 1, "invalid: longfellow"},
		{"accept", "/is-not-here", 1, "invalid: open /is-not-here"},
	} {
		out.Reset()
		errs.Reset()
		configure(c.mode, c.file)
		if code := run(); code != c.code || !strings.Contains(out.String()+errs.String(), c.says) {
			t.Errorf("%+v: %d %s%s", c, code, out, errs)
		}
	}
	published, err := os.ReadFile(circuitFile(t))
	if err != nil {
		t.Fatal(err)
	}
	write("/published", string(published))
	configure("require", "/published")
	out.Reset()
	var shown []checkedCircuit
	code := run("--json", "--save", "/saved")
	if code != exitOK || json.Unmarshal(out.Bytes(), &shown) != nil ||
		len(shown) != 1 || shown[0].Version != 7 || shown[0].Elements != 1 ||
		shown[0].Bytes != len(published) {
		t.Fatalf("%d: %s%s", code, out, errs)
	}
	if saved, err := afero.ReadFile(p.FS, shown[0].Saved); err != nil || string(saved) != string(published) {
		t.Errorf("saved as %s: %v", shown[0].Saved, err)
	}
}
