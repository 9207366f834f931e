package clients

import (
	"net/url"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// contract 50: go-oidc completes verifications, and verifies the ID token with its own code.
func TestOpenIDClient_Go(t *testing.T) {
	const redirect = "https://shop.example/oidc"
	h := newOpenIDProvider(t, redirect)
	provider, err := oidc.NewProvider(t.Context(), h.BaseURL+"/oidc")
	if err != nil {
		t.Fatal(err)
	}
	config := oauth2.Config{ClientID: h.Publisher.L1.ID, ClientSecret: h.Publisher.SecretKey,
		Endpoint: provider.Endpoint(), RedirectURL: redirect, Scopes: []string{oidc.ScopeOpenID}}
	verifier := provider.Verifier(&oidc.Config{ClientID: config.ClientID, Now: h.Now})
	for _, end := range ends {
		pkce := oauth2.GenerateVerifier()
		page := authorized(h, config.AuthCodeURL("state-"+end.name, oidc.Nonce("nonce-"+end.name),
			oauth2.S256ChallengeOption(pkce)))
		back, err := url.Parse(end.walk(t, h, page, redirect))
		if err != nil || !strings.HasPrefix(back.String(), redirect) {
			t.Fatalf("%s: %v %v", end.name, back, err)
		}
		q := back.Query()
		if q.Get("state") != "state-"+end.name || q.Get("iss") != h.BaseURL+"/oidc" {
			t.Errorf("%s: state and iss: %v", end.name, q)
		}
		if end.name != "approved" {
			if q.Get("error") != "access_denied" || q.Has("code") {
				t.Errorf("%s: %v", end.name, q)
			}
			continue
		}
		tokens, err := config.Exchange(t.Context(), q.Get("code"), oauth2.VerifierOption(pkce))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := tokens.Extra("id_token").(string)
		verified, err := verifier.Verify(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		var claims struct {
			Acr  string          `json:"acr"`
			Ages map[string]bool `json:"age_equal_or_over"`
		}
		if err := verified.Claims(&claims); err != nil || verified.Nonce != "nonce-approved" ||
			claims.Acr != "L1" || !claims.Ages["18"] {
			t.Errorf("approved: %v %+v %+v", err, verified, claims)
		}
		info, err := provider.UserInfo(t.Context(), config.TokenSource(t.Context(), tokens))
		if err != nil || info.Subject != verified.Subject {
			t.Errorf("userinfo: %v %+v", err, info)
		}
		if _, err := config.Exchange(t.Context(), q.Get("code"), oauth2.VerifierOption(pkce)); err == nil ||
			!strings.Contains(err.Error(), "invalid_grant") {
			t.Errorf("the code again: %v", err)
		}
	}
}
