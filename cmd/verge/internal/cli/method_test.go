package cli

import (
	"fmt"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/oidctest"
)

// scriptTB lets a script start what else tests start.
type scriptTB struct{ ts *testscript.TestScript }

func (s scriptTB) Helper()                           {}
func (s scriptTB) Cleanup(f func())                  { s.ts.Defer(f) }
func (s scriptTB) Fatal(args ...any)                 { s.ts.Fatalf("%s", fmt.Sprint(args...)) }
func (s scriptTB) Fatalf(format string, args ...any) { s.ts.Fatalf(format, args...) }

// otherSides is the scripts' command sides. It starts an OpenID provider without TLS, another with a
// certificate of an unknown authority, and an estimator, on loopback, and puts their addresses into the
// environment.
func otherSides(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: sides")
	}
	config := oidctest.Config{Scopes: map[string][]string{"openid": nil, "age": {"is_over_16", "is_over_18"}},
		Clients: []oidctest.Client{
			{ID: "verge", Secret: "0123456789abcdef0123456789abcdef",
				ReturnURLs: []string{"http://localhost:8080/verify/return/bank"}}}}
	ts.Setenv("PROVIDER", oidctest.Start(scriptTB{ts}, config).URL)
	ts.Setenv("UNKNOWN", oidctest.StartTLS(scriptTB{ts}, config).URL)
	_, at := estimatortest.Serve(scriptTB{ts},
		estimatortest.Config{Token: "0123456789abcdef0123456789abcdef"})
	ts.Setenv("ESTIMATOR", at+estimatortest.PlainPath)
}
