package pages

import (
	_ "embed"
	"encoding/json"
	"errors"
)

// The script of a page that asks the browser's own wallets. It adds their response to the page's form.
// Without it the form stays hidden, and the page has the link and the code.
//
//go:embed credential.js
var credentialJS []byte

var credentialScript = asset("credential", "js", javaScript, credentialJS)

// CredentialScript returns the script that a page with View.Credential loads, and no other page. Such a page
// needs "script-src 'self'".
func CredentialScript() Asset { return credentialScript }

// credential is the part of a page that asks the browser's own wallets.
type credential struct {
	action         string
	protocol, data string // of the first request
	more           string // the other requests, as the script hands them to the browser: a JSON array
	fields         []Field

	ask            string // on the button
	asking, failed string // the texts while the browser asks, and if it returned no response
}

func composeCredential(p *page, v View, t texts) error {
	c := v.Credential
	if c == nil {
		return nil
	}
	if !localPath(c.Action) {
		return errors.New("the Action of a Credential must be a path on this host")
	}
	if len(c.Requests) == 0 {
		return errors.New("a Credential must have a request")
	}
	type request struct {
		Protocol string          `json:"protocol"`
		Data     json.RawMessage `json:"data"`
	}
	more := []request{}
	for n, r := range c.Requests {
		if !json.Valid([]byte(r.Data)) {
			return errors.New("the Data of a CredentialRequest must be JSON")
		}
		if n > 0 {
			more = append(more, request{r.Protocol, json.RawMessage(r.Data)})
		}
	}
	text, err := json.Marshal(more)
	if err != nil {
		return err
	}
	first := c.Requests[0]
	p.credential = &credential{action: c.Action, protocol: first.Protocol, data: first.Data,
		more: string(text), fields: append([]Field{{"flow", v.Flow}}, v.Extra...),
		ask: t("credential.ask"), asking: t("credential.asking"), failed: t("credential.failed")}
	return nil
}
