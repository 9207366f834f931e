package wallettest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/verge-id/verge/testharness/wallettest"
)

// A service requests age_over_18 and accepts the wallet's response at its response_uri. A real service
// verifies the response; this one only prints it.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("state:", r.PostFormValue("state"), "token:", r.PostFormValue("vp_token")[:18]+"…")
		fmt.Fprint(w, `{"redirect_uri":"https://verify.example/done"}`)
	}))
	defer service.Close()
	link := "av://?" + url.Values{
		"response_type": {"vp_token"}, "response_mode": {"direct_post"},
		"client_id": {"redirect_uri:" + service.URL}, "response_uri": {service.URL},
		"nonce": {"bm9uY2Utb2YtdGhlLXNlcnZpY2U"}, "state": {"state-1"},
		"dcql_query": {`{"credentials":[{"id":"proof_of_age","format":"mso_mdoc",` +
			`"meta":{"doctype_value":"eu.europa.ec.av.1"},` +
			`"claims":[{"path":["eu.europa.ec.av.1","age_over_18"]}]}]}`},
	}.Encode()

	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{})
	wallet := wallettest.New(issuer)
	reply, err := wallet.Answer(context.Background(), link)
	fmt.Println(reply.Status, reply.RedirectURI, err)

	// A wallet that tells a lie: it answers another session.
	_, err = wallet.Answer(context.Background(), link, func(p *wallettest.Presentation) {
		p.Session.Nonce = "another"
	})
	fmt.Println(err)
	// Output:
	// state: state-1 token: {"proof_of_age":["…
	// 200 https://verify.example/done <nil>
	// state: state-1 token: {"proof_of_age":["…
	// <nil>
}
