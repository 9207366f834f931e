package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/method"
)

// maxAddress is the maximum length in bytes of an address for the browser (method.Leave).
const maxAddress = 2048

// leave returns the address that the browser goes to. Where the provider takes pushed requests (RFC 9126),
// the address has nothing but a reference, so that the user can neither read nor change the request.
func (c *client) leave(ctx context.Context, s method.Session, e authRequest, p proof, acr []string) (
	string, error) {
	meta, err := c.discover(ctx)
	if err != nil {
		return "", err
	}
	request := c.request(s, e, p, acr)
	if meta.par != "" {
		reference, err := c.push(ctx, meta, request)
		if err != nil {
			return "", err
		}
		request = url.Values{"client_id": {c.clientID}, "request_uri": {reference}}
	}
	return c.addressOf(meta, request)
}

// addressOf returns the address of a request for the browser. It returns an error if the address is too long.
func (c *client) addressOf(meta metadata, request url.Values) (string, error) {
	address := withQuery(meta.authorization, request)
	if len(address) > maxAddress {
		return "", &method.SettingError{Reason: "address_too_long", Setting: c.longest(meta, request),
			Err: fmt.Errorf("oidc: the address for the browser has %d bytes, more than %d; use fewer "+
				"claims, scopes or parameters, or a provider that takes pushed requests", len(address),
				maxAddress)}
	}
	return address, nil
}

// longest returns the setting with the longest part of a request, or "" if the provider's address is longer.
func (c *client) longest(meta metadata, request url.Values) (setting string) {
	own := ""
	for _, p := range c.parameters {
		own += request.Get(p[0])
	}
	most := len(meta.authorization)
	for _, part := range [][2]string{{"parameters", own}, {"claims", request.Get("claims")},
		{"scope", request.Get("scope")}, {acrName, request.Get(acrName)}} {
		if n := len(url.QueryEscape(part[1])); n > most {
			setting, most = part[0], n
		}
	}
	return setting
}

// request is the authorization request (OpenID Connect Core, 3.1.2.1).
func (c *client) request(s method.Session, e authRequest, p proof, acr []string) url.Values {
	challenge := sha256.Sum256([]byte(e.verifier))
	request := url.Values{
		"response_type":         {"code"},
		"client_id":             {c.clientID},
		"redirect_uri":          {s.ReturnURL},
		"scope":                 {strings.Join(slices.Concat(c.scope, p.scope), " ")},
		"state":                 {e.handle},
		"nonce":                 {e.nonce},
		"code_challenge":        {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
	}
	if s.Language != "" {
		request.Set("ui_locales", s.Language)
	}
	if len(acr) > 0 {
		request.Set("acr_values", strings.Join(acr, " "))
	}
	if c.claims != "" {
		request.Set("claims", c.claims)
	}
	if c.maxAge >= 0 {
		request.Set("max_age", strconv.Itoa(c.maxAge))
	}
	if len(c.prompt) > 0 {
		request.Set("prompt", strings.Join(c.prompt, " "))
	}
	for _, p := range c.parameters {
		request.Set(p[0], p[1])
	}
	return request
}

// push hands the request to the provider and returns its reference.
func (c *client) push(ctx context.Context, meta metadata, request url.Values) (string, error) {
	response, err := c.post(ctx, c.host.FetchOnce, "pushed request", meta, meta.par, request)
	if err != nil {
		return "", err
	}
	if response.Status != 201 && response.Status != 200 { // RFC 9126 says 201, not all providers do
		return "", endpointError("pushed request", response)
	}
	o, err := readJSON("response to the pushed request", response.Body)
	if err != nil {
		return "", err
	}
	reference := claims{o}.text("request_uri")
	if reference == "" || !isVisible(reference, 1024) {
		return "", fmt.Errorf("oidc: response to the pushed request: %w", rejected(badPush))
	}
	return reference, nil
}

// withQuery appends a query to an address that may have one already (RFC 6749, 3.1).
func withQuery(address string, query url.Values) string {
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	return address + separator + strings.ReplaceAll(query.Encode(), "+", "%20")
}
