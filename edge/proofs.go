package edge

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"io/fs"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/edge/internal/longfellow"
)

// ProofVerifier returns a function that verifies zero-knowledge proofs of Longfellow with the circuits of a
// folder. It opens a circuit at its first use, and verifies so many proofs at a time; other calls wait. A
// proof takes half a second of a processor, and up to 100 MB.
func ProofVerifier(circuits fs.FS, concurrent int) host.VerifyProofFunc {
	return verifierOf(longfellow.NewSet(longfellow.Folder(circuits), concurrent))
}

func verifierOf(set *longfellow.Set) host.VerifyProofFunc {
	return func(ctx context.Context, s host.ProofStatement, proof []byte) (bool, string, error) {
		key, err := x509.ParsePKIXPublicKey(s.Issuer)
		if err != nil {
			return false, "the issuer's key cannot be read", nil
		}
		public, ok := key.(*ecdsa.PublicKey)
		if !ok {
			return false, "the issuer's key is not one of ECDSA", nil
		}
		issuer, err := public.Bytes()
		if err != nil {
			return false, "the issuer's key cannot be read", nil
		}
		statement := &longfellow.Statement{Issuer: issuer, SessionTranscript: s.SessionTranscript,
			DocType: s.DocType, Time: s.Time}
		for _, e := range s.Elements {
			statement.Attributes = append(statement.Attributes,
				longfellow.Attribute{Identifier: e.Identifier, Value: e.Value})
		}
		err = set.Verify(ctx, s.Circuit, statement, proof)
		if rejected := longfellow.Reason(""); errors.As(err, &rejected) {
			return false, string(rejected), nil
		}
		return err == nil, "", err
	}
}
