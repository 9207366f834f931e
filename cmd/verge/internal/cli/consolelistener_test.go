package cli

import (
	"net/http"
	"testing"
)

// TestConsoleListener shows that the console is at the listener that the configuration names, and at no other
// (contract 43). Where it is not, the operators' listener asks for a token before it returns 404.
func TestConsoleListener(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		listener      string
		public, admin int
	}{
		{"", 200, 401},
		{"public", 200, 401},
		{"operators", 404, 200},
		{"off", 404, 401},
	} {
		more := ""
		if tt.listener != "" {
			more = "[console]\nlistener = \"" + tt.listener + "\"\n"
		}
		in := newSite(t, "memory", newEvents(t).URL, more).start()
		for at, want := range map[string]int{in.at.Public: tt.public, in.at.Admin: tt.admin} {
			resp, err := http.Get("http://" + at + "/console/sign-in")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.StatusCode; got != want {
				t.Errorf("contract 43: console.listener %q: %s answers %d, want %d", tt.listener, at, got,
					want)
			}
		}
		in.kill()
	}
}
