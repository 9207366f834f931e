package openid

import (
	"crypto/sha256"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/token"
)

// Callback returns the address with a code for the browser that has completed a session of that flow token.
// claims come from its result token, and age from its record. An instance of an earlier release stores no
// age. Such a session cannot have the claim of its age, so the client gets access_denied.
func Callback(s host.Sealer, baseURL string, flow *token.FlowClaims, claims token.ResultClaims, age int,
	now time.Time) (string, error) {
	if age <= 0 {
		return Denied(baseURL, flow), nil
	}
	code, err := token.SealGrant(s, token.Code, &token.Grant{ResultClaims: claims, Issued: token.At(now),
		Redirect: hashOf(string(flow.Callback)), Age: age, OpenID: flow.OpenID})
	if err != nil {
		return "", err
	}
	return returnURL(baseURL, string(flow.Callback), flow.StateText(), [2]string{"code", code}), nil
}

var errDenied = &fault{"access_denied", "the user was not verified"}

// Denied returns the address for a user who goes back to the client without a success.
func Denied(baseURL string, flow *token.FlowClaims) string {
	return errDenied.url(baseURL, string(flow.Callback), flow.StateText())
}

func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}
