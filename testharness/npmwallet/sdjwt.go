package npmwallet

import "testing"

// Binding has the claims of the key binding of an SD-JWT.
type Binding struct {
	Audience string `json:"aud"`
	Nonce    string `json:"nonce"`
	IssuedAt int64  `json:"iat"`
}

// SDJWTs are presentations of @sd-jwt/sd-jwt-vc, and its verdicts about ours.
type SDJWTs struct {
	Theirs   []string
	Verdicts []struct {
		Error    string // "": it is accepted
		Claims   map[string]any
		Audience string
	}
}

// SDJWT has the library issue and present a Document, once for each list of paths, and verify our own
// presentations. In a presentation, the first path that the document has is disclosed.
func SDJWT(t testing.TB, d Document, vct string, paths [][][]string, by Binding, ours ...string) (s SDJWTs) {
	t.Helper()
	in := d.person(t)
	queries := []any{}
	for _, all := range paths {
		claims := []any{}
		for _, path := range all {
			claims = append(claims, map[string]any{"path": path})
		}
		queries = append(queries, map[string]any{"meta": map[string]any{"vct_values": []string{vct}},
			"claims": claims})
	}
	in["queries"], in["binding"], in["ours"] = queries, by, ours
	run(t, "sd-jwt.mjs", in, &s)
	if len(s.Theirs) != len(paths) || len(s.Verdicts) != len(ours) {
		t.Fatalf("@sd-jwt/sd-jwt-vc: %d presentations and %d verdicts", len(s.Theirs), len(s.Verdicts))
	}
	return s
}
