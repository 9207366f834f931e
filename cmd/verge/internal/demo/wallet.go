package demo

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/wallettest"
)

// walletPath is where the pretended wallet is. Links to it begin with this path, and codes say the same.
const walletPath = "/wallet"

// holder is one person whose wallet it may be.
type holder struct {
	Choice string // the form's
	Label  string
	adult  bool
	leaves bool // without an answer
}

var holders = []holder{
	{"adult", "Share: I am 18 or older", true, false},
	{"younger", "Share: I am younger", false, false},
	{"decline", "Do not share", false, true},
}

type walletPage struct {
	chrome
	Link    string // what was opened; "": nothing
	Element string // what is asked for
	Holders []holder
	Done    bool   // it has answered, and another device goes on
	Wrong   string // why it does not answer
}

// wallet returns the wallet of somebody of that age. It sends to the service alone, whatever a link says.
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

// opened is a request that the pretended wallet has opened, or why it does not.
func (p *pretend) opened(r *http.Request, link string, w *wallettest.Wallet) (*wallettest.Request, string) {
	u, err := url.Parse(link)
	if err != nil {
		return nil, "This is no address that a wallet can open."
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
		return nil, "The answer would not go to the service on this machine."
	}
	return request, ""
}

// showWallet is the page of the wallet. Looking at it answers nothing.
func (p *pretend) showWallet(w http.ResponseWriter, r *http.Request) {
	page := walletPage{chrome: chrome{Title: "Demo wallet"}, Holders: holders}
	if pasted := r.URL.Query().Get("link"); pasted != "" {
		if text, ok := strings.CutPrefix(pasted, p.site.conf.DemoURL+walletPath+"?"); ok {
			seeOther(w, walletPath+"?"+text)
			return
		}
		page.Wrong = "This is not what the code on the page of this service says."
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

// answerWallet answers as its form says, and sends the browser where the service wants it.
func (p *pretend) answerWallet(w http.ResponseWriter, r *http.Request) {
	at, ok := chosen(p, w, r, "wallet", holders, func(h holder) string { return h.Choice })
	if !ok {
		return
	}
	wallet := p.wallet(holders[at].adult)
	request, wrong := p.opened(r, r.PostFormValue("link"), wallet)
	if wrong != "" {
		p.site.problem(w, http.StatusBadRequest, problem{Title: "The wallet cannot answer this", Text: wrong})
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
			Title: "The service did not take the answer",
			Text:  "It may be too late, or another answer came first. Begin again from the shop.",
		})
	case strings.HasPrefix(reply.RedirectURI, p.site.conf.BaseURL+"/"):
		seeOther(w, reply.RedirectURI)
	default:
		p.site.render(w, http.StatusOK, "wallet",
			walletPage{chrome: chrome{Title: "Demo wallet"}, Done: true})
	}
}
