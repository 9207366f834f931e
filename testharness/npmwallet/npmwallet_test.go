package npmwallet

import (
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wallettest"
)

// Two verifiers without common code accept the wallet of package wallettest. Each of them must also reject
// invalid responses, because otherwise its acceptance would be no evidence.
func TestVerifiers_AcceptWallet(t *testing.T) {
	long.Skip(t, "TestVerifiers_AcceptWallet")
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{EKU: wallettest.MDLSigner})
	const docType = "org.iso.18013.5.1.mDL"
	wallet := wallettest.New(issuer)
	for _, handover := range []wallettest.Session{
		{
			Handover: wallettest.OpenID4VP, ClientID: "x509_san_dns:verify.example",
			Nonce:       "nonce-0123456789abcdef",
			ResponseURI: "https://verify.example/box", Thumbprint: make([]byte, 32),
		},
		{
			Handover: wallettest.OpenID4VPOverDCAPI, Origin: "https://verify.example",
			Nonce: "nonce-0123456789abcdef",
		},
		{Handover: wallettest.AnnexC, Origin: "https://verify.example", EncryptionInfo: "gmVkY2FwaaA"},
	} {
		ask := []string{"age_over_18", "age_over_21"}
		p, err := wallet.Presentation(handover, docType, "org.iso.18013.5.1", ask)
		if err != nil {
			t.Fatal(err)
		}
		right, err := p.Response()
		if err != nil {
			t.Fatal(err)
		}
		p.Session.Origin += ".evil"
		p.Session.Nonce += "x"
		other, err := p.Response()
		if err != nil {
			t.Fatal(err)
		}
		for _, verifier := range verifiers {
			if handover.Handover == wallettest.AnnexC && verifier == "verify-owf.mjs" {
				continue // it does not know this handover
			}
			t.Run(handover.Handover+" "+verifier, func(t *testing.T) {
				r := response{Bytes: right, Transcript: handover.Transcript(),
					Root: issuer.Root.Raw}
				replayed, untrusted := r, r
				replayed.Bytes = other
				untrusted.Root = wallettest.NewIssuer(wallettest.IssuerConfig{}).Root.Raw
				v := verify(t, verifier, r, replayed, untrusted)
				if v[0].Error != "" || v[0].Elements["age_over_18"] != true ||
					v[0].Elements["age_over_21"] != true {
					t.Errorf("it says %+v", v[0])
				}
				if !strings.Contains(strings.ToLower(v[1].Error), "signature") {
					t.Errorf("a response to another session: %+v", v[1])
				}
				if v[2].Error == "" {
					t.Errorf("of another issuer's document it says %+v", v[2])
				}
			})
		}
	}
}
