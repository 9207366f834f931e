package mdoc_test

import (
	"testing"

	"github.com/verge-id/verge/core/internal/mdoc"
)

func TestVectors(t *testing.T) {
	cases := vectors(t).Cases
	if len(cases) < 63 {
		t.Errorf("there are %d vectors", len(cases))
	}
	ask := askOfVectors(t)
	for _, v := range cases {
		t.Run(v.Name, func(t *testing.T) {
			p, err := mdoc.Verify(t.Context(), unhex(t, v.Response), ask)
			if got := outcome(t, p, err); got != v.Reason || v.OK != (v.Reason == "") {
				t.Errorf("refused as %q, want %q", got, v.Reason)
			}
		})
	}
}
