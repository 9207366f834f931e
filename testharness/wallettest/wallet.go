package wallettest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/cbor"
)

// Wallet holds documents of one person.
type Wallet struct {
	Issuer *Issuer

	// Elements are the values in each document: bool, int, string or cbor.Item by an element's name.
	Elements map[string]any

	// Format is the format of its documents: mso_mdoc, which is the default, or dc+sd-jwt. Documents in the
	// latter format have the Claims.
	Format string
	Claims map[string]any

	// Key is the device's.
	Key *ecdsa.PrivateKey

	// Verifiers are the authorities whose signed requests are accepted. Nil: a request by any certificate is
	// accepted, if the certificate is the client's.
	Verifiers *x509.CertPool

	// Services are the keys of services that have a DID, by their DID URLs.
	Services map[string]*ecdsa.PublicKey

	// TextToken means that it encrypts the JSON of a vp_token as a text, as the Swiss wallet does.
	TextToken bool

	// Prove, if not nil, proves elements of a document in zero knowledge. Where a request offers circuits,
	// the wallet sends a proof instead of the document. EditProof, if not nil, changes that response.
	Prove     func(ProofTask) ([]byte, error)
	EditProof func(*ZKResponse)

	// LabelProof means that its proofs name the circuit by the wallet's own label, as Multipaz does, and not
	// by the id in the request.
	LabelProof bool

	// Compress means that it compresses encrypted responses by OpenID4VP, as Multipaz does with proofs.
	Compress bool

	// OnlyGet means that it fetches requests by GET, even if the link names POST.
	OnlyGet bool

	// Client sends the wallet's requests. It should follow no redirects. Nil: one that follows none.
	Client *http.Client

	// Now is the clock. Nil: time.Now.
	Now func() time.Time

	// Random, if not nil, is the source of randomness. The same one gives the same response.
	Random io.Reader
}

// New returns a wallet of a person who was born in 1986, whose documents say age_over_16, age_over_18,
// age_over_21 and the date of birth.
func New(issuer *Issuer) *Wallet {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the random reader never fails
	}
	return &Wallet{Issuer: issuer, Key: key, Elements: map[string]any{
		"age_over_16": true, "age_over_18": true, "age_over_21": true, "birth_date": BirthDate("1986-02-28"),
	}, Claims: map[string]any{"birthdate": "1986-02-28", "family_name": "Muster",
		"age_equal_or_over": map[string]any{"16": true, "18": true, "21": true, "65": false}}}
}

// BirthDate returns the value of an element that is a date, such as 1986-02-28.
func BirthDate(date string) cbor.Item { return cbor.Tagged(tagFullDate, cbor.Text(date)) }

func (w *Wallet) now() time.Time {
	if w.Now == nil {
		return time.Now()
	}
	return w.Now()
}

func (w *Wallet) client() *http.Client {
	if w.Client != nil {
		return w.Client
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{CheckRedirect: stay}
}

// Message is the wallet's POST request.
type Message struct {
	URL  string
	Form url.Values
}

// Reply is the service's response to a Message.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte

	// RedirectURI is where the wallet sends the user on the same device. "": nowhere.
	RedirectURI string
}

// Answer opens a link, and sends a presentation of the requested elements.
func (w *Wallet) Answer(ctx context.Context, link string, changes ...func(*Presentation)) (Reply, error) {
	r, err := w.Open(ctx, link)
	if err != nil {
		return Reply{}, err
	}
	m, err := w.Present(r, changes...)
	if err != nil {
		return Reply{}, err
	}
	return w.Send(ctx, m)
}

// Decline opens a link and responds that the user declined.
func (w *Wallet) Decline(ctx context.Context, link string) (Reply, error) {
	r, err := w.Open(ctx, link)
	if err != nil {
		return Reply{}, err
	}
	return w.Send(ctx, Message{r.ResponseURI, url.Values{"error": {"access_denied"}, "state": {r.State}}})
}

// Presentation returns the unsigned response to a session. The document was issued the day before, and is
// valid for 90 days.
func (w *Wallet) Presentation(
	s Session, docType, namespace string, elements []string,
) (*Presentation, error) {
	now := w.now().Truncate(time.Second)
	p := &Presentation{
		Session: s, DocType: docType, Namespace: namespace,
		Issuer: w.Issuer, DigestAlgorithm: "SHA-256", DeviceKey: w.Key,
		Signed: now.AddDate(0, 0, -1), ValidFrom: now.AddDate(0, 0, -1), ValidUntil: now.AddDate(0, 0, 90),
		random: w.Random,
	}
	for _, name := range elements {
		value, ok := w.Elements[name]
		if !ok {
			continue
		}
		e, err := fresh(w.Random, name, value)
		if err != nil {
			return nil, err
		}
		p.Elements = append(p.Elements, e)
	}
	return p, nil
}

// Set gives an element another value, or adds it. The value is as for Wallet.Elements.
func (p *Presentation) Set(name string, value any) {
	e, err := fresh(p.random, name, value)
	if err != nil {
		panic(err)
	}
	p.Elements = append(slices.DeleteFunc(p.Elements, func(e Element) bool { return e.Name == name }), e)
}

// Present returns the response to a request.
func (w *Wallet) Present(r *Request, changes ...func(*Presentation)) (Message, error) {
	s := Session{Handover: OpenID4VP, ClientID: r.ClientID, Nonce: r.Nonce, ResponseURI: r.ResponseURI}
	if r.ResponseMode == "direct_post.jwt" {
		s.Thumbprint = r.Thumbprint
	}
	response, err := w.respondTo(r, s, changes)
	if err != nil {
		return Message{}, err
	}
	presentations := map[string]any{r.Query: []string{response}}
	if r.ResponseMode == "direct_post.jwt" {
		answer := map[string]any{"vp_token": presentations}
		if w.TextToken {
			answer["vp_token"] = asText(presentations)
		}
		if r.State != "" {
			answer["state"] = r.State
		}
		payload, err := json.Marshal(answer)
		if err != nil {
			return Message{}, fmt.Errorf("wallettest: %w", err)
		}
		jwe, err := w.seal(r, payload)
		return Message{r.ResponseURI, url.Values{"response": {jwe}}}, err
	}
	token, err := json.Marshal(presentations)
	if err != nil {
		return Message{}, fmt.Errorf("wallettest: %w", err)
	}
	form := url.Values{"vp_token": {string(token)}}
	if r.State != "" {
		form.Set("state", r.State)
	}
	return Message{r.ResponseURI, form}, nil
}

func asText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts
	}
	return string(b)
}

// seal encrypts a response with the request's key.
func (w *Wallet) seal(r *Request, payload []byte) (jwe string, err error) {
	header := map[string]any{
		"enc": r.Encryption, "apu": encode([]byte("wallet")), "apv": encode([]byte(r.Nonce)),
	}
	if r.KeyID != "" {
		header["kid"] = r.KeyID
	}
	if w.Compress {
		header["zip"], payload = "DEF", Deflate(payload)
	}
	return sealJWE(w.Random, payload, r.Key, header)
}

// respondTo returns the member of a vp_token for a request.
func (w *Wallet) respondTo(r *Request, s Session, changes []func(*Presentation)) (string, error) {
	if r.Format == formatSDJWT {
		p, err := w.Presentation(s, "", "", nil)
		if err != nil {
			return "", err
		}
		p.SDJWT = w.sdJWT(r, s)
		for _, change := range changes {
			change(p)
		}
		return p.Token()
	}
	response, _, err := w.respond(s, r.DocType, r.Namespace, r.Elements, r.Circuits, changes)
	return encode(response), err
}

// respond writes a DeviceResponse, and returns the transcript of the session that it answers.
func (w *Wallet) respond(
	s Session, docType, namespace string, elements []string, circuits []Circuit,
	changes []func(*Presentation),
) (response, transcript []byte, err error) {
	p, err := w.Presentation(s, docType, namespace, elements)
	if err != nil {
		return nil, nil, err
	}
	for _, change := range changes {
		change(p)
	}
	response, err = p.Response()
	if err == nil && len(circuits) > 0 && w.Prove != nil {
		response, err = w.prove(p, response, circuits)
	}
	return response, p.Session.Transcript(), err
}

// Send posts a message. Every response is a Reply, including those with an error status.
func (w *Wallet) Send(ctx context.Context, m Message) (Reply, error) {
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, strings.NewReader(m.Form.Encode()))
	if err != nil {
		return Reply{}, fmt.Errorf("wallettest: response_uri: %w", err)
	}
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := w.client().Do(post)
	if err != nil {
		return Reply{}, fmt.Errorf("wallettest: response_uri: %w", err)
	}
	defer resp.Body.Close()
	reply := Reply{Status: resp.StatusCode, Header: resp.Header}
	if reply.Body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20)); err != nil {
		return Reply{}, fmt.Errorf("wallettest: response_uri: %w", err)
	}
	var answer struct {
		RedirectURI string `json:"redirect_uri"`
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(reply.Body, &answer); err != nil {
			return reply, fmt.Errorf("wallettest: the response of response_uri is %q: %w", reply.Body, err)
		}
	}
	reply.RedirectURI = answer.RedirectURI
	return reply, nil
}
