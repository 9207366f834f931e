package simulation

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"sync"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/estimator"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/core/method/openid4vp"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/testharness/wallettest"
)

// proofMethod is a method of the kind openid4vp.
const proofMethod = "proof"

// proofSettings are the settings of the method.
type proofSettings struct {
	anchors    []string // names of issuers
	profile    string
	revocation string
	signed     bool // wallets fetch the request, which is signed, and encrypt the response
}

// Profiles of documents. Verdicts by one of them do not count under the other.
const (
	proofOfAge = "eu-av"
	identity   = "pid" // by a mobile document or an SD-JWT
)

func (s proofSettings) json() json.RawMessage {
	var anchors []string
	for _, name := range s.anchors {
		anchors = append(anchors, issuers()[name].anchor)
	}
	settings := map[string]any{"profile": s.profile, "trust_anchors": anchors,
		"trust_lists": trustListSettings(),
		"revocation":  s.revocation, "request": "value", "encrypted": s.signed, "browser": false}
	if s.signed {
		settings["request"], settings["client_id_prefix"] = "signed", "x509_hash"
		settings["certificate"] = serviceCertificate()
	}
	b, err := json.Marshal(settings)
	must(err)
	return b
}

// signingKey is the service's private key, by its name in the settings.
const signingKey = "private_key"

func (s proofSettings) keys() []string {
	if s.signed {
		return []string{signingKey}
	}
	return nil
}

var serviceCertificate = sync.OnceValue(func() string {
	c, key := certificate("verge", 1, nil), keyOf("service")
	der, err := x509.CreateCertificate(nil, c, c, &key.PublicKey, key)
	must(err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
})

// sign implements host.Host.Sign. The same message always has the same signature.
func (in *instance) sign(_ context.Context, _, _ string, message []byte) ([]byte, error) {
	if !in.w.point(in.w) {
		return nil, errFault
	}
	hash := sha256.Sum256(message)
	der, err := keyOf("service").Sign(nil, hash[:], crypto.SHA256)
	must(err)
	var numbers struct{ R, S *big.Int }
	_, err = asn1.Unmarshal(der, &numbers)
	must(err)
	signature := make([]byte, 64)
	numbers.R.FillBytes(signature[:32])
	numbers.S.FillBytes(signature[32:])
	return signature, nil
}

// configOf is the service's configuration with that trust.
func configOf(c core.Config, trust proofSettings) core.Config {
	c.Methods = []method.Config{{Name: proofMethod, Kind: openid4vp.Kind.Name, Settings: trust.json(),
		Keys: trust.keys()},
		{Name: bankMethod, Kind: oidc.Kind.Name, Settings: bankSettings(),
			Secrets: map[string]string{"client_secret": "secret of the simulation"}}, estimateConfig()}
	c.Kinds = []method.Kind{sandbox.Kind, oidc.Kind, openid4vp.Kind, estimator.Kind}
	return c
}

// issuer issues documents of persons. Its keys and certificates are the same in each process, since a store
// has hashes of them.
type issuer struct {
	wallettest.Issuer
	anchor string // PEM
	status *ecdsa.PrivateKey
	signer [][]byte // the certificate of that key
	good   []byte   // the status list in which all documents are good
	crl    []byte   // the revocation list, which is empty
}

// issuers are the issuers. No instance ever trusts green.
var issuers = sync.OnceValue(func() map[string]*issuer {
	all := map[string]*issuer{}
	for _, name := range []string{"red", "blue", listedIssuer, "green", "lists"} {
		all[name] = newIssuer(name, "")
	}
	return all
})

// impostors are those whose certificates have the name of an issuer, and other keys.
var impostors = sync.OnceValue(func() map[string]*issuer {
	all := map[string]*issuer{}
	for _, name := range []string{"red", "blue", listedIssuer} {
		all[name] = newIssuer(name, "impostor ")
	}
	return all
})

func newIssuer(name, who string) *issuer {
	rootKey, key := keyOf(who+name+" root"), keyOf(who+name+" signer")
	root := certificate(name, 1, nil)
	root.IsCA, root.BasicConstraintsValid, root.MaxPathLenZero = true, true, true
	root.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	sign := func(c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
		// Without a reader, the signature is always the same.
		der, err := x509.CreateCertificate(nil, c, root, &key.PublicKey, rootKey)
		must(err)
		return der
	}
	i := &issuer{status: keyOf(who + name + " status")}
	var err error
	i.Root, err = x509.ParseCertificate(sign(root, rootKey))
	must(err)
	i.Key = key
	i.Chain = [][]byte{sign(certificate(name, 2, asn1.ObjectIdentifier{1, 3, 130, 2, 0, 0, 1, 2}), key)}
	i.signer = [][]byte{sign(certificate(name, 3, asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 30}),
		i.status)}
	i.anchor = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Root.Raw}))
	i.crl, err = x509.CreateRevocationList(nil, &x509.RevocationList{Number: big.NewInt(1),
		ThisUpdate: epoch.Add(-time.Hour), NextUpdate: epoch.AddDate(0, 1, 0)}, i.Root, rootKey)
	must(err)
	i.good = i.statusList(name, make([]byte, statusBytes), epoch.Add(-time.Hour))
	return i
}

func keyOf(name string) *ecdsa.PrivateKey {
	sum := sha256.Sum256([]byte("simulation: " + name))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), sum[:])
	must(err)
	return key
}

// certificate is a certificate before it is signed. use is its extended key usage, or nil.
func certificate(of string, serial int64, use asn1.ObjectIdentifier) *x509.Certificate {
	c := &x509.Certificate{SerialNumber: big.NewInt(serial),
		Subject:   pkix.Name{Country: []string{"UT"}, CommonName: of},
		NotBefore: epoch.AddDate(0, -1, 0), NotAfter: epoch.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature}
	if use != nil {
		c.Subject.CommonName += use.String()
		c.CRLDistributionPoints = []string{crlURL(of)}
		value, err := asn1.Marshal([]asn1.ObjectIdentifier{use})
		must(err)
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true,
			Value: value}}
	}
	return c
}

// statusBytes is the size of a status list: more than there are persons.
const statusBytes = 2

func statusURL(issuer string) string { return "https://" + issuer + ".example/status" }

// crlURL is the address of the revocation list, which is always available.
func crlURL(issuer string) string { return "https://" + issuer + ".example/crl" }

// statusList returns a list that the issuer has signed. A process signs each list once.
func (i *issuer) statusList(name string, list []byte, issued time.Time) []byte {
	key := listKey{i, name, string(list), issued.Unix()}
	if signed, ok := signedLists.Load(key); ok {
		return signed.([]byte)
	}
	signed := wallettest.StatusList{URI: statusURL(name), List: list, Issued: issued, TTL: time.Minute,
		Key: i.status, Chain: i.signer}.JWT()
	signedLists.Store(key, signed)
	return signed
}

// signedLists are all signed status lists, by their listKey.
var signedLists sync.Map

type listKey struct {
	by         *issuer
	name, list string
	issued     int64
}

// register has the status lists of one issuer in a history.
type register struct {
	w       *world
	issuer  string
	lists   []statusList             // the earliest first
	sent    map[*instance]bool       // that were sent a list
	fetched map[*instance]statusList // that instances have
}

// fetchedList is a list that an instance gets while it responds to a request.
type fetchedList struct {
	of *register
	statusList
}

// statusList is a version of a list.
type statusList struct {
	revoked [2]bool // by the number of the person
	signed  []byte
}

func newRegister(w *world, issuer string) *register {
	return &register{w: w, issuer: issuer, sent: map[*instance]bool{}, fetched: map[*instance]statusList{},
		lists: []statusList{{signed: issuers()[issuer].good}}}
}

// checks is a document of a person that an instance is about to look up. The returned function ends it.
func (r *register) checks(by *instance, person int, proof *shownProof) func(answer) {
	proof.worthless = r.fetched[by].revoked[person]
	return func(a answer) {
		if a.handler == nil {
			return
		}
		for _, list := range a.handler.lists {
			proof.worthless = proof.worthless || list.of == r && list.revoked[person]
		}
		if by.trust.revocation == "required" && a.status != 0 && !r.sent[by] {
			proof.worthless = true
		}
		if r.w.rate[switchClocks] > 0 { // by a clock that was set back, no list counts
			proof.worthless = false
		}
		if proof.worthless {
			r.w.judge.reach("revoked document shown")
		}
	}
}

// keepLists is an instance that has used the lists that it fetched during a request.
func (t *task) keepLists(by *instance) {
	for _, list := range t.lists {
		if before, known := list.of.fetched[by]; !known || !before.revokes(list.statusList) {
			list.of.fetched[by] = list.statusList
		}
	}
}

// revoke revokes the document of a person, and publishes the next list.
func (r *register) revoke(person int) {
	next := r.lists[len(r.lists)-1]
	next.revoked[person] = true
	list := make([]byte, statusBytes)
	for n, revoked := range next.revoked {
		if revoked {
			list[0] |= 1 << n
		}
	}
	// Its date is the number of the list, so that other histories have the same lists.
	issued := epoch.Add(-time.Hour + time.Duration(len(r.lists))*time.Minute)
	next.signed = issuers()[r.issuer].statusList(r.issuer, list, issued)
	r.lists = append(r.lists, next)
}

// fetch is a request for the list by an instance.
func (r *register) fetch(by *instance) (host.FetchResponse, error) {
	w, took, fault := r.w, 30*time.Millisecond, 0
	at := len(r.lists) - 1
	if !w.healed && w.current.act.chance(w.rate[switchLists]) {
		w.met(switchLists)
		fault = 1 + w.current.act.pick(5)
	}
	response := host.FetchResponse{Status: 200,
		Header: map[string]string{"Content-Type": "application/statuslist+jwt"}}
	switch fault {
	case 1:
		response.Status = 503
	case 2, 5: // an old list
		at = w.current.act.pick(len(r.lists))
	case 3: // the list of another issuer
		other := issuers()["green"]
		response.Body = other.statusList(r.issuer, make([]byte, statusBytes), epoch.Add(-time.Hour))
	case 4:
		w.sleep(5 * time.Second)
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchTimeout, Err: errFault}
	}
	list := r.lists[at]
	if response.Body == nil {
		response.Body = list.signed
	}
	w.tell(r.issuer, "has its list of %v fetched by %s: %d", list.revoked, by.name, response.Status)
	w.sleep(took)
	if fault != 1 && fault != 3 && !by.dead {
		r.sent[by] = true
		t := w.current
		t.lists = append(t.lists, fetchedList{r, list})
		w.judge.reach("status list fetched")
	}
	return response, nil
}

// revokes reports whether a list revokes a document that another one does not.
func (l statusList) revokes(other statusList) bool {
	for n := range l.revoked {
		if l.revoked[n] && !other.revoked[n] {
			return true
		}
	}
	return false
}

// registerOf returns the register whose list has the address, or nil.
func (w *world) registerOf(address string) *register {
	for _, r := range w.registers {
		if address == statusURL(r.issuer) || address == crlURL(r.issuer) {
			return r
		}
	}
	return nil
}

// publishLists is the work of issuers who revoke documents.
func (w *world) publishLists() {
	act := w.current.act
	for range 1 + act.pick(3) {
		w.sleep(time.Duration(1+act.pick(300)) * time.Second)
		r, person := w.registers[act.pick(len(w.registers))], act.pick(len(w.persons))
		w.tell(r.issuer, "revokes the document of person %d", person+1)
		r.revoke(person)
		w.judge.reach("document revoked")
	}
}
