package adminclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
)

// listen serves the operators' API of a service and returns its address.
func listen(t *testing.T, service *core.Service) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		answer := service.Admin(r.Context(), &web.Request{
			Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
			Header: web.Header(r.Header), Body: body, Client: netip.MustParseAddr("127.0.0.1"),
		})
		maps.Copy(w.Header(), http.Header(answer.Header))
		w.WriteHeader(answer.Status)
		w.Write(answer.Body)
	})
}

func serve(t *testing.T, handle http.HandlerFunc) string {
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.URL
}

func client(t *testing.T, url, token string) *adminclient.Client {
	t.Helper()
	c, err := adminclient.New(adminclient.Config{URL: url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAgainstAService calls every method that the core answers.
func TestAgainstAService(t *testing.T) {
	h := testharness.New(t, nil)
	c := client(t, listen(t, h.Service), h.OperatorToken)
	ctx := t.Context()

	all, err := adminclient.All(ctx, c, operate.ListIntegrations, operate.IntegrationQuery{})
	if err != nil || len(all) != 4 {
		t.Fatalf("integrations %+v, %v", all, err)
	}
	report, err := adminclient.Do(ctx, c, operate.TestWebhook,
		operate.WebhookTestInput{Integration: h.Publisher.L1.ID})
	if err != nil || !report.Ready || len(report.Probes) != 5 {
		t.Errorf("webhook test %+v, %v", report, err)
	}

	expires := h.Now().Add(time.Hour)
	created, err := adminclient.Do(ctx, c, operate.CreateKey,
		operate.KeyInput{Publisher: h.Publisher.ID, Expires: &expires})
	if err != nil || created.Key == "" || created.Info.Expires == nil ||
		!created.Info.Expires.Equal(expires) {
		t.Fatalf("created %+v, %v", created, err)
	}
	ask := operate.KeyInput{Publisher: h.Publisher.ID, Integration: h.Publisher.L1.ID}
	public, err := adminclient.Do(ctx, c, operate.CreateKey, ask)
	if err != nil || !public.Info.Public() || public.Info.Expires != nil {
		t.Errorf("created %+v, %v", public, err)
	}
	revoked, err := adminclient.Do(ctx, c, operate.RevokeKey, created.Info.ID)
	if err != nil || revoked.ID != created.Info.ID || revoked.Revoked == nil {
		t.Errorf("revoked %+v, %v", revoked, err)
	}
	keys, err := adminclient.All(ctx, c, operate.ListKeys, operate.PublisherQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if k.ID == created.Info.ID && k.Revoked == nil {
			t.Errorf("listed is %+v, want that it is revoked", k)
		}
	}

	waiting, err := c.WaitingDeliveries(ctx)
	if err != nil || len(waiting) != 0 {
		t.Errorf("waiting %+v, %v", waiting, err)
	}
	h.Sink.Forget()
	h.Sink.Next(testharness.Answer(400)) // a receiver that rejects an event
	h.Start(nil)
	h.Settle()
	dead, err := c.DeadLetters(ctx)
	if err != nil || len(dead) != 1 {
		t.Fatalf("dead %+v, %v", dead, err)
	}
	if _, err := adminclient.Do(ctx, c, operate.Resend, operate.EventAt{Place: dead[0].Event}); err != nil {
		t.Errorf("resent: %v", err)
	}

	_, err = adminclient.Do(ctx, c, operate.Resend, operate.EventAt{Place: dead[0].Event})
	var rejected *adminclient.Error
	if !errors.As(err, &rejected) || rejected.Status != 404 || rejected.RequestID == "" {
		t.Fatalf("resent twice: %#v", err)
	}
	want := "There is no such failed event (NOT_FOUND, request " + rejected.RequestID + ")"
	if err.Error() != want {
		t.Errorf("it says %q, want %q", err, want)
	}

	stranger := client(t, listen(t, h.Service), "another-token-that-is-long-enough")
	_, err = adminclient.All(ctx, stranger, operate.ListKeys, operate.PublisherQuery{})
	if !errors.As(err, &rejected) || rejected.Status != 401 ||
		!strings.Contains(err.Error(), "does not accept this operator token: it may be mistyped") {
		t.Errorf("with another token: %v", err)
	}
}

// TestPages reads every page of a list.
func TestPages(t *testing.T) {
	pages := map[string]string{
		"":         `{"deliveries":[{"event":"evt_1"},{"event":"evt_2"}],"next":"p0:evt_2"}`,
		"p0:evt_2": `{"deliveries":[],"next":"p1:evt_3"}`,
		"p1:evt_3": `{"deliveries":[{"event":"evt_4","reason":"refused"}]}`,
	}
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" || r.URL.Path != operate.ListDeliveries.Path ||
			r.FormValue("state") != operate.DeliveryDead {
			t.Errorf("asked for %s %s", r.Method, r.URL)
		}
		io.WriteString(w, pages[r.FormValue("after")])
	}), "t")
	dead, err := c.DeadLetters(t.Context())
	var events []string
	for _, d := range dead {
		events = append(events, d.Event)
	}
	if err != nil || !slices.Equal(events, []string{"evt_1", "evt_2", "evt_4"}) ||
		dead[2].Reason != "refused" {
		t.Errorf("%+v, %v", dead, err)
	}
}

// The host of an engine answers for modules, so this server is not the core.
func TestModules(t *testing.T) {
	since := time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)
	inUse := admin.ModuleInUse{Digest: "d1", Source: "built in", Since: since}
	state := admin.ModuleState{Engine: "wasm", Active: &inUse}
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != admin.ModulePath || r.Header.Get("Authorization") != "Bearer t" {
			t.Errorf("asked for %s as %s", r.URL, r.Header.Get("Authorization"))
		}
		if r.Method == "GET" {
			json.NewEncoder(w).Encode(state)
			return
		}
		wasm, err := io.ReadAll(r.Body)
		if err != nil || string(wasm) != "wasm" || r.Header.Get(admin.ModuleSignatureHeader) != "signature" {
			t.Errorf("got %q, %v, signed %q", wasm, err, r.Header.Get(admin.ModuleSignatureHeader))
		}
		json.NewEncoder(w).Encode(admin.ModuleActivated{ModuleInUse: inUse, Changed: true})
	}), "t")
	shown, err := c.Module(t.Context())
	if err != nil || shown.Engine != "wasm" || *shown.Active != inUse || shown.Rejected != nil {
		t.Errorf("%+v, %v", shown, err)
	}
	done, err := c.ActivateModule(t.Context(), []byte("wasm"), "signature")
	if err != nil || done.Digest != "d1" || !done.Changed {
		t.Errorf("%+v, %v", done, err)
	}
}

// The program around an engine creates backups, so this server is not the core either.
func TestBackup(t *testing.T) {
	made := admin.BackupMade{Path: "/var/lib/verge/verge.db.backup-1", Items: 1, Tasks: 2, Bytes: 3,
		Taken: time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)}
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" || r.URL.Path != admin.BackupPath ||
			r.Header.Get("Authorization") != "Bearer t" {
			t.Errorf("asked to %s %s as %s", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		json.NewEncoder(w).Encode(made)
	}), "t")
	if got, err := c.Backup(t.Context()); err != nil || *got != made {
		t.Errorf("%+v, %v", got, err)
	}
}

// A Worker has neither of these paths, and a bare "There is no such path" would not help.
func TestModuleAndBackup_OfWorker(t *testing.T) {
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(404)
		io.WriteString(w, `{"code":"NOT_FOUND","error":"There is no such path.","request_id":"req_1"}`)
	}), "t")
	_, show := c.Module(t.Context())
	_, activate := c.ActivateModule(t.Context(), []byte("wasm"), "")
	_, backup := c.Backup(t.Context())
	for _, err := range []struct {
		is   error
		says string
	}{{show, "wrangler deploy"}, {activate, "wrangler deploy"}, {backup, "Durable Objects"}} {
		if err.is == nil || !strings.Contains(err.is.Error(), "Cloudflare Worker") ||
			!strings.Contains(err.is.Error(), err.says) {
			t.Errorf("contract 42: %v", err.is)
		}
	}
}

// TestAnswersOfOthers checks the error if the response is not an admin listener's.
func TestAnswersOfOthers(t *testing.T) {
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}
	page := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }
	short := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "{")
	}
	public := func(w http.ResponseWriter, r *http.Request) {
		answer := testharness.New(t, nil).Service.Handle(r.Context(), &web.Request{Method: r.Method,
			Path: r.URL.Path, Query: r.URL.RawQuery, Header: web.Header(r.Header)})
		w.WriteHeader(answer.Status)
		w.Write(answer.Body)
	}
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		says   string
	}{
		{"a web server", http.NotFound,
			"returned status 404, unlike an admin listener: is this the right address?"},
		{"the public listener", public,
			"has no path /admin/v1/keys, so it is not an admin listener of this release: " +
				"is it the public listener? Use the server's listen.admin"},
		{"a redirect", redirect, "returned status 302, unlike an admin listener"},
		{"a page", page, "is not the expected JSON, does it run another release?"},
		{"an incomplete response", short, "was cut off"},
		{"no response", abort, "no response from"},
	} {
		url := serve(t, c.answer)
		one, err := adminclient.New(adminclient.Config{URL: url + "/", Token: "t0ken", From: "--admin-url"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = adminclient.All(t.Context(), one, operate.ListKeys, operate.PublisherQuery{})
		text := fmt.Sprint(err)
		if !strings.Contains(text, c.says) || !strings.Contains(text, url) ||
			strings.Contains(text, "t0ken") {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
		var rejected *adminclient.Error
		if errors.As(err, &rejected) {
			t.Errorf("%s is treated as a response of the server: %v", c.name, err)
		}
	}
}

// TestInterrupted checks the error of a request that ends by Ctrl-C. A change may have been made.
func TestInterrupted(t *testing.T) {
	for name, changes := range map[string]bool{"a read": false, "a change": true} {
		ctx, cancel := context.WithCancel(t.Context())
		one := client(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		}), "t")
		var err error
		if changes {
			_, err = one.Backup(ctx)
		} else {
			_, err = one.Module(ctx)
		}
		if text := fmt.Sprint(err); !strings.Contains(text, "interrupted before http://127.0.0.1") ||
			strings.Contains(text, "check the result before you repeat it") != changes {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLongResponses reads a report of a large service (contract 57), and a response above the limit.
func TestLongResponses(t *testing.T) {
	for _, c := range []struct {
		mebibytes int
		says      string // "": the report is returned
	}{
		{40, ""},
		{64, "is longer than 64 MiB; ask for less"}, // with the JSON around it
	} {
		page := strings.Repeat("x", c.mebibytes<<20)
		one := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"page":"%s"}`, page)
		}), "t")
		report, err := adminclient.Do(t.Context(), one, operate.ReadReport, operate.ReportQuery{})
		if c.says == "" && (err != nil || report.Page != page) {
			t.Errorf("contract 57: a report of %d MiB: %v", c.mebibytes, err)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("a response of more than %d MiB: %v, want %q", c.mebibytes, err, c.says)
		}
	}
}

// The token goes to the address that was named, and not where that sends the client on.
func TestRedirectsGetNoToken(t *testing.T) {
	asked := 0
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { asked++ })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	})
	one, err := adminclient.New(adminclient.Config{URL: url, Token: "t", HTTP: new(http.Client)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = adminclient.All(t.Context(), one, operate.ListKeys, operate.PublisherQuery{})
	if err == nil || asked != 0 {
		t.Errorf("%v, and the other address was asked %d times", err, asked)
	}
}

func TestNewRejects(t *testing.T) {
	for _, c := range []struct{ url, token, says string }{
		{"", "t", `from: "" is not a URL like http://127.0.0.1:8081`},
		{"127.0.0.1:8081", "t", "is not a URL"},
		{"ftp://127.0.0.1", "t", "is not a URL"},
		{"http://verge.example", "t", "from: http://verge.example would send the operator token"},
		{"http://10.0.0.5:8081", "t", "unencrypted"},
		{"http://localhost.example:8081", "t", "unencrypted"},
		{"https://verge.example", "", adminclient.ErrNoToken.Error()},
		{"https://verge.example", "t", ""},
		{"http://127.0.0.1:8081", "t", ""},
		{"http://[::1]:8081/", "t", ""},
		{"http://localhost", "t", ""},
	} {
		_, err := adminclient.New(adminclient.Config{URL: c.url, Token: c.token, From: "from"})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.url, err, c.says)
		}
	}
}

// An operator's program looks for integrations that are not ready.
func Example() {
	// A real program uses the address of the admin listener of its server.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"integrations":[{"id":"711bb7bd","name":"Shop","ready":false}]}`)
	}))
	defer server.Close()

	client, err := adminclient.New(adminclient.Config{URL: server.URL, Token: "the operator token"})
	if err != nil {
		fmt.Println(err)
		return
	}
	all, err := adminclient.All(context.Background(), client, operate.ListIntegrations,
		operate.IntegrationQuery{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, i := range all {
		if !i.Ready {
			fmt.Println(i.Name, "is not ready")
		}
	}
	// Output: Shop is not ready
}
