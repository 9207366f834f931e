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
	Services           []TrustedService
}

// TrustedService is the one service of a trusted entity.
type TrustedService struct {
	Entity, Name, Type string
	Status             string   // "": it has none
	Certificates       [][]byte // in DER
}

// List has @owf/eudi-lote make and sign a list. It returns the JWS.
func List(t testing.TB, l TrustedEntities) []byte {
	t.Helper()
	services := []map[string]any{}
	for _, s := range l.Services {
		services = append(services, map[string]any{
			"entity": s.Entity, "name": s.Name, "type": s.Type, "status": s.Status,
			"certificates": texts(s.Certificates),
		})
	}
	var out struct{ JWS string }
	listModules.run(t, "lote-owf.mjs", map[string]any{
		"key": jwk(t, l.Key), "chain": texts(l.Chain), "operator": l.Operator, "sequence": l.Sequence,
		"issued": l.Issued.Format(time.RFC3339), "nextUpdate": l.NextUpdate.Format(time.RFC3339),
		"services": services,
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
