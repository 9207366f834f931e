package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
)

// Probe compares a configured method with the metadata of its provider, and checks whether the provider knows
// the client and the return address. No user takes part. An error means that the method cannot work now.
func Probe(ctx context.Context, config method.Config, h method.Host, returnURL string) (method.Report,
	error) {
	var r method.Report
	opened, err := open(config, h)
	if err != nil {
		return r, err
	}
	c := opened.(*client)
	r.Fact("issuer", c.issuer)
	r.Fact("return address", returnURL)
	r.Fact("client authentication", c.auth)
	r.Fact("proves", c.provable())
	meta, err := c.discover(ctx)
	if err != nil {
		return r, c.explained(err)
	}
	c.report(&r, meta)
	keys, err := c.providerKeys(ctx, meta).fetch()
	if rejection := (*method.Rejection)(nil); errors.As(err, &rejection) {
		err = fmt.Errorf("%w; look whether %s, the jwks_uri of the discovery document, returns a JWK Set, "+
			"or ask the provider to fix it", err, meta.jwks)
	}
	if err != nil {
		return r, err
	}
	for _, k := range keys {
		r.Fact("key", fmt.Sprintf("%q for %s", k.id, strings.Join(k.verify, ", ")))
	}
	if len(keys) == 0 {
		return r, errors.New("oidc: the provider's key set has no key that this release can use; " +
			"its algorithms are " + strings.Join(algorithms, ", "))
	}
	c.probeOffers(&r, meta, keys)
	c.probeClaims(&r, meta)
	c.probeSignIn(&r, meta)
	if c.credential != nil {
		c.probeCredential(ctx, &r)
	}
	if meta.par != "" {
		c.probePush(ctx, &r, meta, returnURL)
		return r, nil
	}
	c.probeClient(ctx, &r, meta, returnURL)
	c.probeReturn(ctx, &r, meta, returnURL)
	return r, nil
}

// report adds facts of the provider's discovery document.
func (c *client) report(r *method.Report, m metadata) {
	r.Fact("authorization endpoint", m.authorization)
	r.Fact("token endpoint", m.token)
	r.Fact("userinfo endpoint", m.userinfo)
	switch {
	case !c.pushes:
		r.Fact("pushed requests", "off by the setting pushed")
	case m.par == "":
		r.Fact("pushed requests", "not taken")
	case m.requiresPAR:
		r.Fact("pushed requests", m.par+", required")
	default:
		r.Fact("pushed requests", m.par)
	}
	returns := "not announced"
	if m.announcesIssuer {
		returns = "yes"
	}
	r.Fact("iss with returns", returns)
	r.Fact("signs ID tokens by", strings.Join(m.algorithms, ", "))
}

// provable returns the ages that the method's proofs can prove.
func (c *client) provable() string {
	var ages []int
	for _, p := range c.proofs {
		if p.birthdate {
			return "every age, by a date of birth where no other claim is enough"
		}
		ages = append(ages, p.age)
	}
	slices.Sort(ages)
	return "ages " + strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Compact(ages)), " ", ", "), "[]")
}

// explained adds the fix for a rejected discovery document, for operators.
func (c *client) explained(err error) error {
	rejection, ok := errors.AsType[*method.Rejection](err)
	if !ok {
		return err
	}
	where := strings.TrimSuffix(c.issuer, "/") + wellKnown
	if failed, ok := errors.AsType[*statusError](err); ok {
		switch status := failed.status; {
		case status == 401 || status == 403:
			return fmt.Errorf("%w; ask the provider, or the operator of the firewall in front of it, to "+
				"allow requests from this machine to %s", err, where)
		case status == 429 || status >= 500:
			return fmt.Errorf("%w; the provider cannot serve %s now: try again later, and tell the provider "+
				"if it persists", err, where)
		case status >= 300 && status < 400:
			return fmt.Errorf("%w; redirects are not followed: open %s, and set issuer as its member issuer "+
				"spells it", err, where)
		}
	}
	reason := rejection.Reason
	if errors.Is(err, errNoIssuer) {
		reason = badJSON
	}
	switch reason {
	case otherIssuer:
		return fmt.Errorf("%w; set issuer exactly as the member issuer of %s spells it; if that has a "+
			"placeholder, such as {tenantid} of Microsoft Entra, use the address of one tenant", err, where)
	case badStatus, badJSON, tooLarge:
		return fmt.Errorf("%w; look whether %s is the provider's discovery document, and correct issuer", err,
			where)
	case pushRequired:
		return fmt.Errorf("%w; remove pushed = \"off\"", err)
	case badDiscovery:
		return fmt.Errorf("%w; check that %s contains every endpoint that the method uses "+
			"(userinfo_endpoint only with userinfo = true), or ask the provider to fix it", err, where)
	}
	return err
}

// probeOffers compares the provider's offers with the needs of the method.
func (c *client) probeOffers(r *method.Report, meta metadata, keys keySet) {
	// Without the field, a provider offers client_secret_basic (OpenID Connect Discovery, 3).
	offered := meta.clientAuth
	if len(offered) == 0 {
		offered = []string{authBasic}
	}
	if slices.Contains(offered, c.auth) {
		r.Good("the provider offers %s", c.auth)
	} else {
		r.Bad("the provider does not offer %s, which this method uses; it offers %s: set client_auth",
			c.auth, strings.Join(offered, ", "))
	}
	if c.auth == authKey && len(meta.assertions) > 0 && !slices.Contains(meta.assertions, c.keyAlg) {
		r.Bad("the provider does not verify client assertions by %s; it offers %s: set key_alg, and use "+
			"a key of that type", c.keyAlg, strings.Join(meta.assertions, ", "))
	}
	warnEncryption := func(what, list string, announced []string) {
		isAnnounced := func(alg string) bool { return slices.Contains(announced, alg) }
		if !slices.ContainsFunc(c.encryptions(), isAnnounced) {
			warnMissing(r, what, list, c.encryptions()[:1], announced)
		}
	}
	if c.encryptsIDToken {
		warnEncryption("algorithm to encrypt ID tokens", "id_token_encryption_alg_values_supported",
			meta.encryptsIDToken)
	}
	if c.encryptsUserinfo {
		warnEncryption("algorithm to encrypt userinfo", "userinfo_encryption_alg_values_supported",
			meta.encryptsUserinfo)
	}
	usable := slices.ContainsFunc(meta.algorithms, func(alg string) bool {
		return slices.ContainsFunc(keys, func(k key) bool { return slices.Contains(k.verify, known(alg)) })
	})
	if len(meta.algorithms) > 0 && !usable {
		r.Bad("the provider announces %s for ID tokens, and its key set has no key for one of these that "+
			"Verge verifies; let it sign for this client by one of %s", strings.Join(meta.algorithms, ", "),
			strings.Join(algorithms, ", "))
	}
	var twice []string
	for _, k := range keys {
		if _, only := keys.find(k.id, k.verify[0]); !only && k.id != "" {
			twice = append(twice, k.id)
		}
	}
	slices.Sort(twice)
	for _, id := range slices.Compact(twice) {
		r.Warn("the key set has several keys with the kid %q, so tokens with this kid are rejected; ask the "+
			"provider for a kid of each key", id)
	}
	if len(meta.responseTypes) > 0 && !slices.Contains(meta.responseTypes, "code") {
		r.Bad("the provider does not offer the code flow; response_types_supported has %s",
			strings.Join(meta.responseTypes, ", "))
	}
	if len(meta.responseModes) > 0 && !slices.Contains(meta.responseModes, "query") {
		r.Bad("the provider does not return a code in the query of the address, as Verge needs it; "+
			"response_modes_supported has %s", strings.Join(meta.responseModes, ", "))
	}
	if len(meta.challenge) > 0 && !slices.Contains(meta.challenge, "S256") {
		r.Bad("the provider does not offer PKCE with S256; it may reject the request")
	}
	for _, address := range []string{meta.authorization, meta.token, meta.jwks, meta.userinfo, meta.par} {
		u, err := url.Parse(address)
		issuer, issuerErr := url.Parse(c.issuer)
		if address != "" && err == nil && issuerErr == nil && u.Host != issuer.Host {
			r.Good("the address %s is not on the issuer's host; look whether that is right", address)
		}
	}
}

// probeClaims compares the scopes and claims that the method asks for with those that the provider announces.
// A provider need not announce all of them, so a difference is a warning.
func (c *client) probeClaims(r *method.Report, meta metadata) {
	scopes := slices.Clone(c.scope)
	var claims []string
	for _, p := range c.proofs {
		scopes = append(scopes, p.scope...)
		if c.credential == nil {
			claims = append(claims, p.claim[0])
		}
		for _, required := range p.require {
			if c.credential == nil {
				claims = append(claims, required.claim[0])
			}
		}
		if len(c.scope)+len(p.scope) == 1 && c.claims == "" {
			r.Warn("the request asks for the scope openid alone, and most providers return the claim %s "+
				"only with another scope or the claims parameter; set scope in proof, or claims", p.claim[0])
		}
	}
	if c.credential != nil {
		claims = append(claims, c.credential.claim[0])
	}
	warnMissing(r, "scope", "scopes_supported", scopes, meta.scopes)
	warnMissing(r, "claim", "claims_supported", claims, meta.claims)
	where := "in the ID token"
	advice := "; if it returns claims from its userinfo endpoint only, set userinfo = true"
	if c.userinfo {
		where, advice = "from its userinfo endpoint", ""
	}
	slices.Sort(claims)
	for _, claim := range slices.Compact(claims) {
		r.CannotCheck("whether the provider returns the claim %s for this client %s; sign in once to see%s",
			claim, where, advice)
	}
}

// probeSignIn compares the prompts and acr values of the method with those that the provider announces.
func (c *client) probeSignIn(r *method.Report, meta metadata) {
	warnMissing(r, "prompt", "prompt_values_supported", c.prompt, meta.prompts)
	warnMissing(r, "acr value", "acr_values_supported", c.acrValues, meta.acrValues)
	if c.maxAge >= 0 {
		r.CannotCheck("whether the provider returns auth_time, which max_age requires; sign in once to see")
	}
	if len(c.acrValues) > 0 {
		r.CannotCheck("whether the provider returns acr, which acr_values requires; sign in once to see")
	}
}

// warnMissing warns of each value that the provider does not announce. A provider without
// the list is not compared.
func warnMissing(r *method.Report, what, list string, used, announced []string) {
	slices.Sort(announced)
	seen := map[string]bool{}
	for _, value := range used {
		if len(announced) > 0 && !slices.Contains(announced, value) && !seen[value] {
			r.Warn("the provider does not announce the %s %s; %s of its discovery document has %s",
				what, value, list, strings.Join(announced, ", "))
		}
		seen[value] = true
	}
}

// probeCredential looks for the keys of who signs the claim with the proof.
func (c *client) probeCredential(ctx context.Context, r *method.Report) {
	keys, err := c.credentialKeys(ctx).fetch()
	switch {
	case err != nil:
		r.Bad("the keys of %s cannot be read: %v", c.credential.did, err)
	case len(keys) == 0:
		r.Bad("%s has no key that this release can use", c.credential.did)
	default:
		r.Good("%s has %d keys", c.credential.did, len(keys))
	}
}

// probeRequest returns the request of a login for a proof, without a user.
func (c *client) probeRequest(returnURL string, p proof) (url.Values, error) {
	e, err := newAuthRequest(c.host.Random)
	if err != nil {
		return nil, err
	}
	return c.request(method.Session{ReturnURL: returnURL, Language: "en"}, e, p, c.acrValues), nil
}

// probePush pushes a request. Its response covers the client, its authentication and the return address.
func (c *client) probePush(ctx context.Context, r *method.Report, meta metadata, returnURL string) {
	request, err := c.probeRequest(returnURL, c.proofs[0])
	if err == nil {
		_, err = c.push(ctx, meta, request)
	}
	advice := ""
	if !meta.requiresPAR {
		advice = "; if only pushed requests fail, set pushed = \"off\""
	}
	var rejection *method.Rejection
	switch {
	case err == nil:
		r.Good("the provider accepted a pushed request: it knows the client and the return address %s",
			returnURL)
	case errors.As(err, &rejection) && rejection.Reason == tokenErrors["invalid_client"]:
		r.Bad("the provider does not accept the client: check %s%s", c.credentials(), advice)
	case errors.As(err, &rejection) && rejection.Reason == tokenErrors["invalid_scope"]:
		r.Bad("the provider does not allow this client the scope %q", request.Get("scope"))
	case errors.As(err, &rejection) && (rejection.Reason == tokenErrors["invalid_request"] ||
		rejection.Reason == tokenErrors["invalid_redirect_uri"]):
		r.Bad(
			"the provider accepts the client but rejects the request; most likely the return address %s is "+
				"not registered there", returnURL)
	default:
		r.Bad("a pushed request failed: %v%s", err, advice)
	}
}

// credentials names the settings that authenticate the client. Client assertions have times.
func (c *client) credentials() string {
	if c.auth == authKey {
		return "client_id, the key, key_id and key_audience for " + c.auth + ", and this machine's clock"
	}
	return "client_id, and the secret for " + c.auth
}

// probeClient exchanges a code that does not exist. A provider that reports this has accepted the client.
func (c *client) probeClient(ctx context.Context, r *method.Report, meta metadata, returnURL string) {
	e, err := newAuthRequest(c.host.Random)
	if err == nil {
		_, err = c.exchange(ctx, meta, returnURL, "verge-check-"+e.handle, e.verifier)
	}
	var rejection *method.Rejection
	switch {
	case err == nil:
		r.Bad("the token endpoint returned tokens for a code that does not exist; a provider that does so " +
			"cannot verify users")
	case errors.As(err, &rejection) && rejection.Reason == tokenErrors["invalid_grant"]:
		r.Good("the token endpoint accepts the client by %s", c.auth)
	case errors.As(err, &rejection) && (rejection.Reason == tokenErrors["invalid_client"] ||
		rejection.Reason == tokenErrors["unauthorized_client"]):
		r.Bad("the token endpoint does not accept the client: check %s", c.credentials())
	default:
		r.Bad("the token endpoint returned an unexpected response to a code that does not exist: %v", err)
	}
}

// probeReturn calls the authorization endpoint like a browser, once with the return address and once with an
// unregistered one. Providers show a page for both cases, so the result is only a likelihood.
//
// If the address of a login is too long for the browser, it reports this and makes no call.
func (c *client) probeReturn(ctx context.Context, r *method.Report, meta metadata, returnURL string) {
	for _, p := range c.proofs {
		request, err := c.probeRequest(returnURL, p)
		if err == nil {
			_, err = c.addressOf(meta, request)
		}
		if err != nil {
			r.Bad("no login with the claim %s can begin: %v", strings.Join(p.claim, "."), err)
			return
		}
	}
	own, err := c.probeAuthorization(ctx, meta, returnURL)
	if err != nil {
		r.Bad("the request to the authorization endpoint failed: %v", err)
		return
	}
	other, err := c.probeAuthorization(ctx, meta, strings.TrimSuffix(returnURL, "/")+"-not-registered")
	switch {
	case err != nil:
		r.Bad("the request to the authorization endpoint failed: %v", err)
	case own.rejects && other.rejects:
		r.Bad("the return address %s is likely not registered: the authorization endpoint returns "+
			"%d, as for an unregistered address", returnURL, own.status)
	case own.rejects:
		r.Bad("the authorization endpoint rejects a login with status %d", own.status)
	case own.returns != "":
		r.Bad("the return address %s is likely registered, but the provider redirects the browser "+
			"back immediately with the error %s", returnURL, own.returns)
	case other.rejects:
		r.Good("the return address %s is likely registered: for another address the provider returns %d",
			returnURL, other.status)
	case own.target != other.target:
		r.Good("the return address %s is likely registered: for another address the provider redirects "+
			"elsewhere", returnURL)
	default:
		r.Good("the provider returns the same response for an unregistered return address, so "+
			"it is unknown whether %s is registered; check this at the provider", returnURL)
	}
}

// probed is the response of an authorization endpoint to a request.
type probed struct {
	status  int
	rejects bool   // it neither shows a page nor sends the browser on
	target  string // where it sends the browser, without the query
	returns string // the error in its redirect to us
}

func (c *client) probeAuthorization(ctx context.Context, meta metadata, returnURL string) (probed, error) {
	request, err := c.probeRequest(returnURL, c.proofs[0])
	if err != nil {
		return probed{}, err
	}
	response, err := c.ask(ctx, "authorization endpoint", host.FetchRequest{
		Method: "GET", URL: withQuery(meta.authorization, request), Timeout: requestTimeout,
		Header: map[string]string{"Accept": "text/html"},
	})
	if rejection, ok := errors.AsType[*method.Rejection](err); ok && rejection.Reason == tooLarge {
		return probed{status: 200}, nil // a login page may be larger than the limit
	}
	if err != nil {
		return probed{}, err
	}
	p := probed{status: response.Status, rejects: response.Status >= 400}
	target, err := url.Parse(response.Header["Location"])
	if err != nil {
		return probed{}, errors.New("oidc: the authorization endpoint's Location is no address")
	}
	query := target.Query()
	target.RawQuery, target.Fragment = "", ""
	p.target = target.String()
	if p.target == returnURL && query.Has("error") {
		p.returns = "of an unknown name"
		if name := query.Get("error"); returnErrors[name] != "" {
			p.returns = name
		}
	}
	return p, nil
}
