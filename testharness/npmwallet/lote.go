package npmwallet

import (
	"crypto/ecdsa"
	"encoding/base64"
	"testing"
	"time"
)

// TrustedEntities is a list of trusted entities to make.
type TrustedEntities struct {
	Key                *ecdsa.PrivateKey // of the signer, on P-256
	Chain              [][]byte          // of the signer, in DER
	Operator           string
	Sequence           int
	Issued, NextUpdate time.Time
	services           []map[string]any
}

// Add adds the one service of an entity, with its certificates in DER. The status "" means that it has none.
func (l *TrustedEntities) Add(entity, name, typ, status string, certificates ...[]byte) {
	l.services = append(l.services, map[string]any{"entity": entity, "name": name, "type": typ,
		"status": status, "certificates": texts(certificates)})
}

// List has @owf/eudi-lote make and sign the list. It returns the JWS.
func (l *TrustedEntities) List(t testing.TB) []byte {
	t.Helper()
	var out struct{ JWS string }
	listModules.run(t, "lote-owf.mjs", map[string]any{
		"key": jwk(t, l.Key), "chain": texts(l.Chain), "operator": l.Operator, "sequence": l.Sequence,
		"issued": l.Issued.Format(time.RFC3339), "nextUpdate": l.NextUpdate.Format(time.RFC3339),
		"services": l.services,
	}, &out)
	return []byte(out.JWS)
}

func texts(ders [][]byte) []string {
	all := []string{}
	for _, der := range ders {
		all = append(all, base64.StdEncoding.EncodeToString(der))
	}
	return all
}
