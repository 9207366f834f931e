package demo

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/wallettest"
)

// walletPath is the path of the simulated wallet. Links and QR codes begin with it.
const walletPath = "/wallet"

// holder is one possible holder of the wallet.
type holder struct {
	Choice string // the form's
	Label  string
	adult  bool
	leaves bool // without a response
}

var holders = []holder{
	{"adult", "Share: I am 18 or older", true, false},
	{"younger", "Share: I am younger", false, false},
	{"decline", "Do not share", false, true},
}

type walletPage struct {
	chrome
	Link    string // the opened link; "": none
	Element string // the requested element
	Holders []holder
	Done    bool   // it has responded, and another device continues
	Wrong   string // the reason why it does not respond
}

// wallet returns the wallet of a person of that age. It sends only to the service, even if a link has
// another address.
func (p *pretend) wallet(adult bool) *wallettest.Wallet {
	w := wallettest.New(p.site.conf.Counterparts.Issuer)
	w.Client, w.Now = p.site.conf.HTTPClient, p.site.conf.Now
	for name, value := range w.Elements {
		if _, says := value.(bool); says {
			w.Elements[name] = adult
		}
	}
	return w
}

// opened returns a request that the simulated wallet has opened, or the reason why it cannot.
func (p *pretend) opened(r *http.Request, link string, w *wallettest.Wallet) (*wallettest.Request, string) {
	u, err := url.Parse(link)
	if err != nil {
		return nil, "A wallet cannot open this address."
	}
	box := p.site.conf.BaseURL + web.PendingPath
	q := u.Query()
	if !strings.HasPrefix(q.Get("response_uri")+q.Get("request_uri"), box) {
		return nil, "The request does not come from the service on this machine."
	}
	request, err := w.Open(r.Context(), link)
	if err != nil {
		return nil, err.Error()
	}
	if !strings.HasPrefix(request.ResponseURI, box) {
		return nil, "The response would not go to the service on this machine."
	}
	return request, ""
}

// showWallet shows the page of the wallet. It sends no response.
func (p *pretend) showWallet(w http.ResponseWriter, r *http.Request) {
	page := walletPage{chrome: chrome{Title: "Demo wallet"}, Holders: holders}
	if pasted := r.URL.Query().Get("link"); pasted != "" {
		if text, ok := strings.CutPrefix(pasted, p.site.conf.DemoURL+walletPath+"?"); ok {
			seeOther(w, walletPath+"?"+text)
			return
		}
		page.Wrong = "This is not the text of the code on this service's page."
	}
	status := http.StatusOK
	if r.URL.RawQuery != "" && page.Wrong == "" {
		page.Link = p.site.conf.DemoURL + walletPath + "?" + r.URL.RawQuery
		request, wrong := p.opened(r, page.Link, p.wallet(true))
		if page.Wrong = wrong; wrong == "" {
			page.Element = strings.Join(request.Elements, " or ")
		}
	}
	if page.Wrong != "" {
		status, page.Link = http.StatusBadRequest, ""
	}
	p.site.render(w, status, "wallet", page)
}

// answerWallet sends the response that its form selects, and redirects the browser to the address from the
// service.
func (p *pretend) answerWallet(w http.ResponseWriter, r *http.Request) {
	at, ok := chosen(p, w, r, "wallet", holders, func(h holder) string { return h.Choice })
	if !ok {
		return
	}
	wallet := p.wallet(holders[at].adult)
	request, wrong := p.opened(r, r.PostFormValue("link"), wallet)
	if wrong != "" {
		p.site.problem(w, http.StatusBadRequest, problem{Title: "The wallet cannot do this", Text: wrong})
		return
	}
	message := wallettest.Message{URL: request.ResponseURI,
		Form: url.Values{"error": {"access_denied"}, "state": {request.State}}}
	var err error
	if !holders[at].leaves {
		message, err = wallet.Present(request)
	}
	var reply wallettest.Reply
	if err == nil {
		reply, err = wallet.Send(r.Context(), message)
	}
	switch {
	case err != nil || reply.Status != http.StatusOK:
		p.site.problem(w, http.StatusBadGateway, problem{
			Title: "The service did not accept the response",
			Text:  "It may be too late, or another response came first. Begin again from the shop.",
		})
	case strings.HasPrefix(reply.RedirectURI, p.site.conf.BaseURL+"/"):
		seeOther(w, reply.RedirectURI)
	default:
		p.site.render(w, http.StatusOK, "wallet",
			walletPage{chrome: chrome{Title: "Demo wallet"}, Done: true})
	}
}
