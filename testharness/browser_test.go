package testharness_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/estimatortest"
)

// otherSite is a site that returns the cookies of a request, and sets those in the query.
func otherSite(t *testing.T) (byName, byAddress string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, line := range r.URL.Query()["set"] {
			w.Header().Add("Set-Cookie", line)
		}
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		fmt.Fprintf(w, "<body data-page=other><p>%s %s</p>", r.Method, r.Header.Get("Cookie"))
		if action := r.URL.Query().Get("form"); action != "" {
			fmt.Fprintf(w, `<form data-outcome=go method=post action="%s"><input name=a value=b></form>`, action)
		}
	}))
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "127.0.0.1", "localhost", 1), s.URL
}

func TestBrowser_KeepsCookies(t *testing.T) {
	h := testharness.New(t, nil)
	name, address := otherSite(t)
	page := h.Open(h.Start(nil).RedirectURL)
	set := func(line string) string { return name + "/?set=" + url.QueryEscape(line) }
	page.Go(set("lax=1; SameSite=Lax; Max-Age=60"))
	page.Go(set("none=1; SameSite=None; Max-Age=600"))
	page.Go(set("__Host-far=1; Path=/"))
	page.Go(set("secure=1; Secure"))
	says := func(p *testharness.Page, want string) {
		t.Helper()
		if !strings.Contains(string(p.Body), "<p>"+want+"</p>") {
			t.Errorf("%s: %s, want %s", p.URL, p.Body, want)
		}
	}
	says(page.Go(name), "GET lax=1; none=1")
	says(page.Go(address), "GET ")
	says(page.Go(address+"/?form="+name).Submit("go"), "POST none=1") // a form of another site
	says(page.Go(name+"/?form="+name).Submit("go"), "POST lax=1; none=1")
	says(page.Go(address+"/?to="+name), "GET lax=1; none=1")
	h.Pause(time.Minute)
	says(page.Go(name), "GET none=1")
	page.Go(set("none=; Max-Age=0"))
	says(page.Go(name), "GET ")
	page.Go(set("none=2"))
	says(h.Open(h.Start(nil).RedirectURL).Go(name), "GET ") // another browser
}

func TestFormsAreWrittenAsBrowsersDo(t *testing.T) {
	h := testharness.New(t, &testharness.Options{Estimators: []string{"camera"}})
	h.Offer(h.Publisher.L1, "camera")
	form := h.Open(h.Start(nil).RedirectURL).StepForm("camera", estimatortest.Picture())
	if form.Method != "POST" || form.EncType != "multipart/form-data" || form.File != "image" {
		t.Fatalf("%+v", form)
	}
	sent := ""
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		file, header, err := r.FormFile("image")
		if err != nil {
			sent = err.Error()
			return
		}
		b, err := io.ReadAll(file)
		sent = fmt.Sprint(header.Header.Get("Content-Type"), " ", string(b) == string(form.Picture), " ",
			r.FormValue("flow") == form.Fields.Get("flow"), " ", err)
	}))
	defer s.Close()
	form.Action = s.URL
	h.Open(h.Start(nil).RedirectURL).SubmitForm(form)
	if sent != "image/jpeg true true <nil>" {
		t.Errorf("the form arrives as %q", sent)
	}
}

// Sessions from before the rotation continue, and new ones have the new key.
func TestRotateKeyring(t *testing.T) {
	h := testharness.New(t, nil)
	old := h.Keyring.Keys[0].ID
	before := h.Start(nil)
	h.RotateKeyring()
	if len(h.Keyring.Keys) != 2 || h.Keyring.Keys[0].ID == old {
		t.Fatalf("the ring has %d keys", len(h.Keyring.Keys))
	}
	if r := h.Validate(h.Approve(before).ResultToken); r.Status != 200 {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if want := `verge_keyring_sealing_key{key="` + h.Keyring.Keys[0].ID + `"} 1`; !strings.Contains(h.Metrics(), want) {
		t.Error("the new key does not seal")
	}
}
