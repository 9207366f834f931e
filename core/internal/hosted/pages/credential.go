package pages

import (
	_ "embed"
	"encoding/json"
	"errors"
)

// The script of a page that asks the browser's own wallets. It puts their answer into the page's form.
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
	action, protocol, data string
	fields                 []Field

	ask            string // on the button
	asking, failed string // what the page says meanwhile, and when the browser has brought no answer
}

func composeCredential(v View, t texts) (*credential, error) {
	c := v.Credential
	if !localPath(c.Action) {
		return nil, errors.New("the Action of a Credential must be a path on this host")
	}
	if !json.Valid([]byte(c.Data)) {
		return nil, errors.New("the Data of a Credential must be JSON")
	}
	return &credential{action: c.Action, protocol: c.Protocol, data: c.Data,
		fields: append([]Field{{"flow", v.Flow}}, v.Extra...),
		ask:    t("credential.ask"), asking: t("credential.asking"), failed: t("credential.failed")}, nil
}
