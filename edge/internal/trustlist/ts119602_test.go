package trustlist

import (
	"crypto"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"
)

const (
	typePID    = "http://uri.etsi.org/19602/SvcType/PID/Issuance"
	docTypePID = "eu.europa.ec.eudi.pid.1"
)

func base64URLOf(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// members are the members of a JSON object.
type members = map[string]any

// jsonList is a TS 119 602 list.
type jsonList struct {
	signer identity
	chain  []identity // of x5c; nil: the signer; empty: no x5c
	header members    // replaces and adds members; nil values remove them
	scheme members
	// services are the services of the one provider.
	services []members
	// payload changes the payload before it is signed, document the whole document after that.
	payload, document func(string) string
}

func newJSONList(t testing.TB) jsonList {
	return jsonList{
		signer:   issue(t, "List signer", nil, nil),
		services: []members{jsonService(typePID, issue(t, "Issuer", nil, nil, authority))},
	}
}

func (l jsonList) expected() Expected {
	return Expected{DocType: docTypePID, Signers: certificates(l.signer)}
}

func jsonService(kind string, of ...identity) members {
	var list []members
	for _, c := range of {
		list = append(list, members{"val": base64Of(c.Raw)})
	}
	return members{
		"ServiceName":            []members{{"lang": "en", "value": "Service"}},
		"ServiceTypeIdentifier":  kind,
		"ServiceDigitalIdentity": members{"X509Certificates": list},
	}
}

func with(o members, changes members) members {
	changed := maps.Clone(o)
	for name, value := range changes {
		if value == nil {
			delete(changed, name)
		} else {
			changed[name] = value
		}
	}
	return changed
}

func jsonOf(t testing.TB, value any) string {
	t.Helper()
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// build returns the document.
func (l jsonList) build(t testing.TB) []byte {
	t.Helper()
	protected, payload, signature := l.parts(t)
	return []byte(changed(l.document, protected+"."+payload+"."+signature))
}

func (l jsonList) parts(t testing.TB) (protected, payload, signature string) {
	t.Helper()
	var services []members
	for _, s := range l.services {
		services = append(services, members{"ServiceInformation": s})
	}
	content := jsonOf(t, members{"LoTE": members{
		"ListAndSchemeInformation": with(members{
			"LoTEVersionIdentifier": 1, "LoTESequenceNumber": 3,
			"SchemeOperatorName": []members{{"lang": "de", "value": "Betreiber"}, {"lang": "en",
				"value": "Operator"}},
			"ListIssueDateTime": at.AddDate(0, -1, 0).Format(time.RFC3339),
			"NextUpdate":        at.AddDate(0, 5, 0).Format(time.RFC3339),
		}, l.scheme),
		"TrustedEntitiesList": []members{{
			"TrustedEntityInformation": members{"TEName": []members{{"lang": "en", "value": "Provider"}}},
			"TrustedEntityServices":    services,
		}},
	}})
	chain := l.chain
	if chain == nil {
		chain = []identity{l.signer}
	}
	var x5c []string
	for _, c := range chain {
		x5c = append(x5c, base64Of(c.Raw))
	}
	header := with(members{"alg": "ES256", "x5c": x5c}, l.header)
	if len(chain) == 0 {
		delete(header, "x5c")
	}
	protected = base64URLOf([]byte(jsonOf(t, header)))
	payload = base64URLOf([]byte(changed(l.payload, content)))
	name, _ := header["alg"].(string)
	a := jwsAlgorithms[name]
	if a.hash == 0 {
		a.hash = crypto.SHA256
	}
	value := l.signer.sign(t, a.hash, a.family == familyPSS, []byte(protected+"."+payload))
	return protected, payload, base64URLOf(value)
}

func TestTS119602(t *testing.T) {
	l := newJSONList(t)
	list, err := Read(TS119602, l.build(t), l.expected(), at)
	if err != nil {
		t.Fatal(err)
	}
	if list.Sequence != 3 || list.Issuer != "Operator" ||
		!list.Issued.Equal(at.AddDate(0, -1, 0)) || !list.NextUpdate.Equal(at.AddDate(0, 5, 0)) ||
		!list.Signer.Equal(l.signer.Certificate) || len(list.Entries) != 1 {
		t.Fatalf("list: %+v", list)
	}
	if name := list.Entries[0].Subject.CommonName; name != "Issuer" {
		t.Errorf("entry: %s", name)
	}
}

func TestTS119602_Algorithms(t *testing.T) {
	for _, c := range []struct {
		algorithm string
		key       crypto.Signer
		want      Reason
	}{
		{"ES256", ecKey(t, elliptic.P256()), ""},
		{"ES384", ecKey(t, elliptic.P384()), ""},
		{"ES512", ecKey(t, elliptic.P521()), ""},
		{"RS256", rsaKey(t, 2048), ""},
		{"PS256", rsaKey(t, 2048), ""},
		{"ES256", ecKey(t, elliptic.P384()), Unsupported},
		{"ES384", ecKey(t, elliptic.P256()), Unsupported},
		{"RS256", ecKey(t, elliptic.P256()), Unsupported},
		{"ES256", rsaKey(t, 2048), Unsupported},
		{"RS256", rsaKey(t, 1024), Unsupported},
		{"RS1", rsaKey(t, 2048), Unsupported},
		{"HS256", ecKey(t, elliptic.P256()), Unsupported},
		{"none", ecKey(t, elliptic.P256()), Unsupported},
		{"None", ecKey(t, elliptic.P256()), Unsupported},
		{"es256", ecKey(t, elliptic.P256()), Unsupported},
		{"", ecKey(t, elliptic.P256()), Unsupported},
	} {
		t.Run(c.algorithm, func(t *testing.T) {
			l := newJSONList(t)
			l.signer = issue(t, "List signer", nil, c.key)
			l.header = members{"alg": c.algorithm}
			_, err := Read(TS119602, l.build(t), l.expected(), at)
			if got := reasonOf(t, err); got != c.want {
				t.Errorf("rejected as %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestTS119602_Entries(t *testing.T) {
	one, two := issue(t, "One", nil, nil), issue(t, "Two", nil, nil, authority)
	since, later := at.AddDate(-1, 0, 0).Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339)
	notified := "http://uri.etsi.org/19602/PubEAAProvidersList/SvcStatus/notified"
	for _, c := range []struct {
		name     string
		services []members
		entries  int
		skipped  map[Skip]int
	}{
		{"without a status", []members{jsonService(typePID, one, two)}, 2, map[Skip]int{}},
		{"notified", []members{with(jsonService(typePID, one), members{"ServiceStatus": notified,
			"StatusStartingTime": since})}, 1, map[Skip]int{}},
		{"withdrawn", []members{with(jsonService(typePID, one), members{"ServiceStatus": statusWithdrawn,
			"StatusStartingTime": since})}, 0, map[Skip]int{SkipStatus: 1}},
		{"an empty status", []members{with(jsonService(typePID, one), members{"ServiceStatus": ""})}, 0,
			map[Skip]int{SkipStatus: 1}},
		{"a date without a status", []members{with(jsonService(typePID, one),
			members{"StatusStartingTime": since})}, 0, map[Skip]int{SkipStatus: 1}},
		{"notified in the future", []members{with(jsonService(typePID, one),
			members{"ServiceStatus": notified, "StatusStartingTime": later})}, 0,
			map[Skip]int{SkipStatus: 1}},
		{"revocation", []members{jsonService("http://uri.etsi.org/19602/SvcType/PID/Revocation", one)}, 0,
			map[Skip]int{SkipType: 1}},
		{"without a type", []members{with(jsonService("", one), members{"ServiceTypeIdentifier": nil})}, 0,
			map[Skip]int{SkipType: 1}},
		{"a public key alone", []members{with(jsonService(typePID), members{"ServiceDigitalIdentity": members{
			"PublicKeyValues": []members{{"kty": "EC"}}}})}, 0, map[Skip]int{}},
		{"no base64", []members{with(jsonService(typePID), members{"ServiceDigitalIdentity": members{
			"X509Certificates": []members{{"val": "-"}}}})}, 0, map[Skip]int{SkipCertificate: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newJSONList(t)
			l.services = c.services
			list, err := Read(TS119602, l.build(t), l.expected(), at)
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Entries) != c.entries || !maps.Equal(list.Skipped, c.skipped) {
				t.Errorf("%d entries, skipped %v, want %d, %v", len(list.Entries), list.Skipped, c.entries,
					c.skipped)
			}
		})
	}
}

func TestTS119602_Header(t *testing.T) {
	root := issue(t, "Root", nil, nil, authority)
	signer := issue(t, "Signer", &root, nil, signsLists(usageETSI))
	other := issue(t, "Other", nil, nil)
	s256, s512 := sha256.Sum256(signer.Raw), sha512.Sum512(signer.Raw)
	thumbprint := base64URLOf(s256[:])
	for _, c := range []struct {
		name   string
		header members
		chain  []identity
		want   Reason
	}{
		{"x5c", nil, nil, ""},
		{"baseline B", members{"x5t#S256": thumbprint, "sigT": "2026-10-01T00:00:00Z",
			"crit": []string{"sigT"},
			"typ":  "JOSE", "cty": "json"}, nil, ""},
		{"iat", members{"iat": at.Unix()}, nil, ""},
		{"x5t#o", members{"x5t#o": members{"digAlg": "S512", "digVal": base64URLOf(s512[:])}}, nil, ""},
		{"x5t#S256 of a configured signer", members{"x5t#S256": thumbprint}, []identity{}, ""},
		{"kid alone", members{"kid": "1"}, []identity{}, SignerUnknown},
		{"x5t#S256 of another certificate", members{"x5t#S256": base64URLOf(make([]byte, 32))}, []identity{},
			SignerUnknown},
		{"x5t#S256 and x5c differ", members{"x5t#S256": base64URLOf(make([]byte, 32))}, nil, WrongSignature},
		{"x5t#o and x5c differ", members{"x5t#o": members{"digAlg": "S256", "digVal": "AAAA"}}, nil,
			WrongSignature},
		{"x5t#o by SHA-1", members{"x5t#o": members{"digAlg": "S1", "digVal": "AAAA"}}, nil, Malformed},
		{"x5t#S256 of another length", members{"x5t#S256": ""}, nil, Malformed},
		{"another certificate", nil, []identity{other}, SignerUnknown},
		{"the certificate of another key", nil, []identity{root}, WrongSignature},
		{"x5c as a text", members{"x5c": base64Of(signer.Raw)}, nil, Malformed},
		{"x5c without certificates", members{"x5c": []string{}}, nil, Malformed},
		{"x5c without base64", members{"x5c": []string{"-"}}, nil, Malformed},
		{"jwk", members{"jwk": members{"kty": "EC"}}, []identity{}, SignerUnknown},
		{"crit that is not known", members{"crit": []string{"new"}, "new": true}, nil, Unsupported},
		{"crit that is missing", members{"crit": []string{"sigT"}}, nil, Unsupported},
		{"crit without names", members{"crit": []string{}}, nil, Malformed},
		{"crit as a text", members{"crit": "sigT"}, nil, Malformed},
		{"b64", members{"b64": false, "crit": []string{"b64"}}, nil, Unsupported},
		{"b64 that is not critical", members{"b64": false}, nil, Unsupported},
		{"detached", members{"sigD": members{"mId": "http://uri.etsi.org/19182/ObjectIdByURI"}}, nil,
			Unsupported},
		{"sigT in the future", members{"sigT": "2026-11-02T00:00:00Z"}, nil, IssuedInFuture},
		{"iat in the future", members{"iat": at.Unix() + 600}, nil, IssuedInFuture},
		{"sigT as a number", members{"sigT": 1}, nil, Malformed},
		{"iat as a text", members{"iat": "1"}, nil, Malformed},
		{"a large header", members{"other": strings.Repeat("a", maxHeader)}, nil, TooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newJSONList(t)
			l.signer, l.header, l.chain = signer, c.header, c.chain
			expected := Expected{DocType: docTypePID, Signers: certificates(root)}
			if c.chain != nil && len(c.chain) == 0 {
				expected.Signers = certificates(signer)
			}
			_, err := Read(TS119602, l.build(t), expected, at)
			if got := reasonOf(t, err); got != c.want {
				t.Errorf("rejected as %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestTS119602_Payload(t *testing.T) {
	for _, c := range []struct {
		name   string
		scheme members
		change func(string) string
		want   Reason
	}{
		{"no list", nil, func(string) string { return "{}" }, Malformed},
		{"an array", nil, func(string) string { return "[]" }, Malformed},
		{"no JSON", nil, func(string) string { return "x" }, Malformed},
		{"nothing", nil, func(string) string { return "" }, Malformed},
		{"data after the list", nil, func(s string) string { return s + "{}" }, Malformed},
		{"a member twice", nil, replace(`"LoTESequenceNumber":3`,
			`"LoTESequenceNumber":3,"LoTESequenceNumber":4`),
			Malformed},
		{"a member twice, escaped", nil, replace(`"LoTE":`, `"LoT\u0045":{},"LoTE":`), Malformed},
		{"a member in another case", nil, replace(`"LoTESequenceNumber"`, `"loteSequenceNumber"`), Malformed},
		{"invalid UTF-8", nil, replace("Operator", "Oper\xffator"), Malformed},
		{"nested too deep", nil, replace(`{"LoTE":`, `{"a":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+
			`,"LoTE":`), TooLarge},
		{"version 2", members{"LoTEVersionIdentifier": 2}, nil, Malformed},
		{"no sequence number", members{"LoTESequenceNumber": nil}, nil, Malformed},
		{"sequence number 0", members{"LoTESequenceNumber": 0}, nil, Malformed},
		{"a fraction as a sequence number", members{"LoTESequenceNumber": 1.5}, nil, Malformed},
		{"a text as a sequence number", members{"LoTESequenceNumber": "3"}, nil, Malformed},
		{"no next update", members{"NextUpdate": nil}, nil, Malformed},
		{"no date of issue", members{"ListIssueDateTime": nil}, nil, Malformed},
		{"issued in the future", members{"ListIssueDateTime": "2026-11-02T00:00:00Z"}, nil, IssuedInFuture},
		{"stale", members{"NextUpdate": "2026-10-31T00:00:00Z"}, nil, ""},
		{"a null status", nil, replace(`"ServiceTypeIdentifier"`,
			`"ServiceStatus":null,"ServiceTypeIdentifier"`),
			Malformed},
		{"no trusted entities", nil, replace(`"TrustedEntitiesList"`, `"Other"`), ""},
		{"trusted entities that are none", nil, replace(`"TrustedEntitiesList":[`,
			`"TrustedEntitiesList":[1,`),
			Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newJSONList(t)
			l.scheme, l.payload = c.scheme, c.change
			_, err := Read(TS119602, l.build(t), l.expected(), at)
			if got := reasonOf(t, err); got != c.want {
				t.Errorf("rejected as %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestTS119602_Serializations(t *testing.T) {
	l := newJSONList(t)
	protected, payload, signature := l.parts(t)
	one := members{"protected": protected, "signature": signature}
	for _, c := range []struct {
		name     string
		document string
		want     Reason
	}{
		{"compact", protected + "." + payload + "." + signature, ""},
		{"compact with a line break at the end", protected + "." + payload + "." + signature + "\n", ""},
		{"general", jsonOf(t, members{"payload": payload, "signatures": []members{one}}), ""},
		{"general with unsigned properties", jsonOf(t, members{"payload": payload, "signatures": []members{
			with(one, members{"header": members{"etsiU": []string{}, "alg": "none"}})}}), ""},
		{"flattened", jsonOf(t, with(one, members{"payload": payload})), ""},
		{"two signatures", jsonOf(t, members{"payload": payload, "signatures": []members{one, one}}),
			Malformed},
		{"no signatures", jsonOf(t, members{"payload": payload, "signatures": []members{}}), Malformed},
		{"general and flattened", jsonOf(t, with(one, members{"payload": payload,
			"signatures": []members{one}})),
			Malformed},
		{"no payload", jsonOf(t, one), Malformed},
		{"an unprotected header alone", jsonOf(t, members{"payload": payload, "signature": signature,
			"header": members{"alg": "ES256"}}), Malformed},
		{"a member twice", `{"payload":"","payload":"` + payload + `","protected":"` + protected +
			`","signature":"` + signature + `"}`, Malformed},
		{"two parts", protected + "." + payload, Malformed},
		{"four parts", protected + "." + payload + "." + signature + ".", Malformed},
		{"no signature", protected + "." + payload + ".", WrongSignature},
		{"another payload", protected + "." + base64URLOf([]byte("{}")) + "." + signature, WrongSignature},
		{"a shorter signature", protected + "." + payload + "." + signature[:80], WrongSignature},
		{"padding", protected + "=." + payload + "." + signature, Malformed},
		{"a line break inside", protected + ".\n" + payload + "." + signature, Malformed},
		{"truncated", protected + "." + payload[:len(payload)/2], Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(TS119602, []byte(c.document), l.expected(), at)
			if got := reasonOf(t, err); got != c.want {
				t.Errorf("rejected as %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

// Each byte of a compact JWS counts: what is signed, and the signature.
func TestTS119602_ChangedBytes(t *testing.T) {
	l := newJSONList(t)
	document := l.build(t)
	for i := 0; i < len(document); i += 7 {
		changed := []byte(string(document))
		changed[i] ^= 1
		if _, err := Read(TS119602, changed, l.expected(), at); err == nil {
			t.Errorf("byte %d: accepted", i)
		}
	}
}
