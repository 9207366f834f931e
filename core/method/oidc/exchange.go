package oidc

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// tokens are the result of the exchange of a code.
type tokens struct {
	idToken string
	access  string // "" if missing
}

// exchange asks the token endpoint (RFC 6749, 4.1.3). The verifier proves that the code belongs to this
// authorization request. A code is sent once: a provider that receives it twice should revoke its tokens,
// and then has no userinfo for the first return either (RFC 6749, 4.1.2).
func (c *client) exchange(
	ctx context.Context, meta metadata, returnURL, code, verifier string,
) (tokens, error) {
	response, err := c.post(ctx, c.host.FetchOnce, "token", meta, meta.token, url.Values{
		"grant_type":    {"authorization_code"},
		"code":          {code},
		"redirect_uri":  {returnURL},
		"code_verifier": {verifier},
	})
	if err != nil {
		return tokens{}, err
	}
	if response.Status != 200 {
		return tokens{}, endpointError("token endpoint", response)
	}
	if mediaType(response) != "application/json" {
		return tokens{}, fmt.Errorf("oidc: response of the token endpoint: %w", rejected(badMediaType))
	}
	o, err := readJSON("response of the token endpoint", response.Body)
	if err != nil {
		return tokens{}, err
	}
	all := claims{o}
	t := tokens{all.text("id_token"), all.text("access_token")}
	kind := o.Value("token_type")
	if t.idToken == "" || !isVisible(t.access, maxDocument) ||
		kind.Present() && !strings.EqualFold(all.text("token_type"), "Bearer") {
		return tokens{}, fmt.Errorf("oidc: response of the token endpoint: %w", rejected(badTokens))
	}
	return t, nil
}

// endpointError returns the error for an unsuccessful response. It contains the status, and the response's
// error if that is one of OAuth's.
func endpointError(what string, response host.FetchResponse) error {
	reason := badStatus
	if response.Status == 400 || response.Status == 401 || response.Status == 403 {
		reason = unknownError
		if o, err := readJSON(what, response.Body); err == nil {
			if known, ok := tokenErrors[(claims{o}).text("error")]; ok {
				reason = known
			}
		}
	}
	return fmt.Errorf("oidc: the %s: status %d: %w", what, response.Status, rejected(reason))
}

// post sends a form with the client's authentication. what names the request in errors.
func (c *client) post(
	ctx context.Context, by fetch, what string, meta metadata, address string, form url.Values,
) (host.FetchResponse, error) {
	header := map[string]string{
		"Accept":       "application/json",
		"Content-Type": "application/x-www-form-urlencoded",
	}
	switch c.auth {
	case authBasic:
		// RFC 6749, 2.3.1: both are encoded as in a form first.
		pair := url.QueryEscape(c.clientID) + ":" + url.QueryEscape(c.secret)
		header["Authorization"] = "Basic " + base64.StdEncoding.EncodeToString([]byte(pair))
	case authPost:
		form.Set("client_id", c.clientID)
		form.Set("client_secret", c.secret)
	case authKey:
		assertion, err := c.assertion(ctx, meta)
		if err != nil {
			return host.FetchResponse{}, err
		}
		form.Set("client_id", c.clientID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	}
	return c.askBy(ctx, by, what, host.FetchRequest{
		Method: "POST", URL: address, Header: header, Body: []byte(form.Encode()), Timeout: requestTimeout,
	})
}

// assertionLife is the life of a client assertion: long enough for slightly differing clocks.
const assertionLife = time.Minute

// assertion is a client assertion (RFC 7523). Its audience is the issuer, so that no other server to which it
// is shown can use it, unless the provider insists on its token endpoint.
func (c *client) assertion(ctx context.Context, meta metadata) (string, error) {
	var id [16]byte
	if _, err := io.ReadFull(c.host.Random, id[:]); err != nil {
		return "", fmt.Errorf("oidc: reading randomness: %w", err)
	}
	audience := c.issuer
	if c.audience == "token_endpoint" {
		audience = meta.token
	}
	now := c.host.Now()
	header := strictjson.NewWriter(64)
	header.Text("alg", c.keyAlg)
	header.Text("typ", "JWT")
	if c.keyID != "" {
		header.Text("kid", c.keyID)
	}
	payload := strictjson.NewWriter(256)
	payload.Text("iss", c.clientID)
	payload.Text("sub", c.clientID)
	payload.Text("aud", audience)
	payload.Text("jti", base64.RawURLEncoding.EncodeToString(id[:]))
	payload.Number("iat", now.Unix())
	payload.Number("exp", now.Add(assertionLife).Unix())
	encode := base64.RawURLEncoding.EncodeToString
	message := encode(header.End()) + "." + encode(payload.End())
	signature, err := c.host.Sign(ctx, c.key, c.keyAlg, []byte(message))
	if err != nil {
		return "", fmt.Errorf("oidc: signing the client assertion: %w", err)
	}
	return message + "." + encode(signature), nil
}
