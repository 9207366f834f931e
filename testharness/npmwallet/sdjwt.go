package npmwallet

import "testing"

// sdJWTs are presentations of @sd-jwt/sd-jwt-vc, and its verdicts about ours.
type sdJWTs struct {
	Theirs   []string
	Verdicts []struct {
		Error    string // "": it is accepted
		Claims   map[string]any
		Audience string
	}
}

// SDJWT has the library issue and present the Document, once for each list of paths, and verify our own
// presentations. In a presentation, the first path that the document has is disclosed.
func (d Document) SDJWT(t testing.TB, vct string, paths [][][]string, ours ...string) (s sdJWTs) {
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
	in["queries"], in["ours"] = queries, ours
	in["binding"] = map[string]any{"aud": d.Audience, "nonce": d.Nonce, "iat": d.Now.Unix()}
	run(t, "sd-jwt.mjs", in, &s)
	if len(s.Theirs) != len(paths) || len(s.Verdicts) != len(ours) {
		t.Fatalf("@sd-jwt/sd-jwt-vc: %d presentations and %d verdicts", len(s.Theirs), len(s.Verdicts))
	}
	return s
}
