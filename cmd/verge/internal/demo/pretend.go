package demo

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/estimator"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/core/method/openid4vp"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/oidctest"
	"github.com/verge-id/verge/testharness/wallettest"
)

// Names of the methods whose provider a Site simulates.
const (
	BankMethod   = "bank"
	CameraMethod = "camera"
	WalletMethod = "wallet"
)

// Secrets are the service's credentials at the simulated providers.
type Secrets struct {
	Bank   string // client_secret of the method bank
	Camera string // token of the method camera

	// Issuer issues the documents of the simulated wallet. The method wallet trusts it.
	Issuer *wallettest.Issuer
}

// Paths of the simulated providers.
const (
	bankPath      = "/idp"
	estimatorPath = "/estimator"
)

const bankClient = "verge-demo"

// Methods returns the methods whose provider a Site at demoURL simulates, if its Config has the same secrets.
func Methods(demoURL string, s Secrets) []method.Config {
	return []method.Config{
		{
			Name: BankMethod, Kind: oidc.Kind.Name, Title: "Demo Bank ID",
			Settings: settings(map[string]any{
				"issuer": demoURL + bankPath, "client_id": bankClient,
				"proof": map[string]any{"claim": []string{adultClaim}, "equals": true, "age": 18},
			}),
			Secrets: map[string]string{"client_secret": s.Bank},
		},
		{
			Name: CameraMethod, Kind: estimator.Kind.Name, Title: "Demo camera",
			Settings: settings(map[string]any{
				"profile": "plain", "url": demoURL + estimatorPath + estimatortest.PlainPath,
			}),
			Secrets: map[string]string{"token": s.Camera},
		},
		{
			Name: WalletMethod, Kind: openid4vp.Kind.Name, Title: "Demo wallet",
			Settings: settings(map[string]any{
				"profile": "eu-av", "trust_anchors": []string{string(s.Issuer.PEM())},
				"scheme": demoURL + walletPath,
			}),
		},
	}
}

func settings(members map[string]any) json.RawMessage {
	b, err := json.Marshal(members)
	if err != nil {
		panic(err) // texts, numbers and maps alone
	}
	return b
}

// pretend simulates the bank, the estimator and the wallet. It verifies no user: the person at the browser
// chooses the responses.
type pretend struct {
	site      *Site
	bank      *oidctest.Provider
	estimator *estimatortest.Estimator

	mu     sync.Mutex
	logins map[string]bool // at the bank, not ended yet
	next   int             // index in estimates: the response to all pictures
}

func newPretend(s *Site) *pretend {
	c := s.conf
	p := &pretend{site: s, logins: map[string]bool{}}
	p.bank = oidctest.New(oidctest.Config{
		Issuer: c.DemoURL + bankPath,
		Clients: []oidctest.Client{{ID: bankClient, Secret: c.Counterparts.Bank,
			ReturnURLs: []string{c.BaseURL + web.ReturnPath + BankMethod}}},
		Now: c.Now, Page: p.showLogin,
	})
	p.estimator = estimatortest.New(estimatortest.Config{Token: c.Counterparts.Camera, Now: c.Now})
	p.estimator.Answer(estimates[0].answer)
	return p
}

func (p *pretend) register(mux *http.ServeMux) {
	bank := http.StripPrefix(bankPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.bank.ServeHTTP(w, r)
		p.bank.Requests() // drop the requests that it keeps for tests
	}))
	mux.Handle("GET "+bankPath+"/", bank)
	mux.Handle("POST "+bankPath+"/", bank)
	mux.HandleFunc("POST "+bankPath+"/answer", p.login)
	mux.HandleFunc("GET "+walletPath, p.showWallet)
	mux.HandleFunc("POST "+walletPath+"/answer", p.answerWallet)
	mux.HandleFunc("GET "+estimatorPath+"/{$}", p.showEstimator)
	mux.HandleFunc("POST "+estimatorPath+"/answer", p.choose)
	mux.Handle("POST "+estimatorPath+estimatortest.PlainPath, http.StripPrefix(estimatorPath, p.estimator))
}

// adultClaim is the simulated bank's claim about a person who is 18 or older.
const adultClaim = "age_over_18"

// login is one outcome of a login at the simulated bank.
type login struct {
	Choice string // the form's
	Label  string
	answer oidctest.Answer
}

var logins = []login{
	{"adult", "I am 18 or older", oidctest.Answer{Claims: map[string]any{adultClaim: true}}},
	{"younger", "I am younger", oidctest.Answer{Claims: map[string]any{adultClaim: false}}},
	{"silent", "Do not share my age", oidctest.Answer{}},
	{"cancel", "Cancel", oidctest.Answer{Error: "access_denied"}},
}

type loginPage struct {
	chrome
	ID     string
	Logins []login
}

// showLogin shows the page of the bank. It does not end the login.
func (p *pretend) showLogin(w http.ResponseWriter, _ *http.Request, l oidctest.Login) {
	p.mu.Lock()
	p.logins[l.ID] = true
	p.mu.Unlock()
	p.site.render(w, http.StatusOK, "bank", loginPage{chrome{Title: "Demo Bank ID"}, l.ID, logins})
}

// chosen returns the index of the response that a form selects on the page of a simulated provider. If there
// is no such response, chosen sends an error page and returns false.
func chosen[T any](
	p *pretend, w http.ResponseWriter, r *http.Request, side string, all []T, choiceOf func(T) string,
) (at int, ok bool) {
	r.Body = http.MaxBytesReader(w, r.Body, 16*1024)
	choice := r.PostFormValue("choice")
	at = slices.IndexFunc(all, func(one T) bool { return choiceOf(one) == choice })
	if at < 0 {
		p.site.problem(w, http.StatusBadRequest, problem{
			Title: "The " + side + " does not offer this response",
			Text:  "Go back and choose one of the responses on its page.",
		})
	}
	return at, at >= 0
}

// login ends a login with the outcome of its form, and redirects the browser back.
func (p *pretend) login(w http.ResponseWriter, r *http.Request) {
	at, ok := chosen(p, w, r, "bank", logins, func(l login) string { return l.Choice })
	if !ok {
		return
	}
	id := r.PostFormValue("login")
	p.mu.Lock()
	open := p.logins[id]
	delete(p.logins, id)
	p.mu.Unlock()
	if !open {
		p.site.problem(w, http.StatusNotFound, problem{
			Title: "This login is over",
			Text:  "The bank has already responded. Start again from the shop.",
		})
		return
	}
	p.bank.Finish(w, r, id, logins[at].answer)
}

// estimate is one response of the simulated estimator.
type estimate struct {
	Choice string // the form's
	Label  string
	Means  string // for Verge, where the challenge age is 25
	answer estimatortest.Answer
}

var estimates = []estimate{
	{"30", "30 years", "old enough", estimatortest.Answer{Age: 30}},
	{"15", "15 years", "too young: another try", estimatortest.Answer{Age: 15}},
	{"uncertain", "27 years, plus or minus 9", "too uncertain: another try",
		estimatortest.Answer{Age: 27, Deviation: 9}},
	{"no_face", "No face", "another try", estimatortest.Answer{NoFace: true}},
	{"not_live", "Not a live person", "another try", estimatortest.Answer{Fake: true}},
	{"broken", "Out of order", "no attempt is counted",
		estimatortest.Answer{Status: http.StatusInternalServerError}},
}

type estimatorPage struct {
	chrome
	Estimates []estimate
	Next      int
	Pictures  int
}

func (p *pretend) showEstimator(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	next := p.next
	p.mu.Unlock()
	p.site.render(w, http.StatusOK, "estimator",
		estimatorPage{chrome{Title: "Demo estimator"}, estimates, next, len(p.estimator.Requests())})
}

// choose sets the response to all further pictures.
func (p *pretend) choose(w http.ResponseWriter, r *http.Request) {
	at, ok := chosen(p, w, r, "estimator", estimates, func(e estimate) string { return e.Choice })
	if !ok {
		return
	}
	p.mu.Lock()
	p.next = at
	p.estimator.Answer(estimates[at].answer)
	p.mu.Unlock()
	seeOther(w, estimatorPath+"/")
}
