package conformance_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/internal/methodtest"
	"github.com/verge-id/verge/testharness/wallettest"
)

// walletElement is the element of a document, with its value.
type walletElement struct {
	name  string
	value any
}

// walletAge is a minimum age, with the elements of documents that decide about it. The document of younger
// leaves it open. reason and words are the result of that one, in the log and on the page.
type walletAge struct {
	age                         int
	accepted, rejected, younger walletElement
	reason, words               string
}

// walletProfile is a profile with the curves of its issuer's and its device's keys. P-521 is slow: its one
// issuer is in TestWalletRevocation.
type walletProfile struct {
	name, eku      string
	format         string // of its documents, if it is not mso_mdoc
	issuer, device elliptic.Curve
	clear, signed  walletAge // by the method
	browser        string    // the method that the browser is asked by
}

const (
	notShown    = "whether you are old enough"
	unconfirmed = "did not confirm your age"
)

var walletProfiles = []walletProfile{
	{name: "eu-av", eku: wallettest.MDLSigner, issuer: elliptic.P256(), device: elliptic.P521(),
		clear: walletAge{16, walletElement{"age_over_18", true}, walletElement{"age_over_16", false},
			walletElement{"age_over_18", false}, "other_age", notShown},
		signed: walletAge{21, walletElement{"age_over_21", true}, walletElement{"age_over_18", false},
			walletElement{"age_over_18", true}, "other_age", notShown},
		browser: "clear"},
	{name: "mdl", eku: wallettest.MDLSigner, issuer: elliptic.P384(), device: elliptic.P256(),
		clear: walletAge{16, walletElement{"age_over_21", true}, walletElement{"age_over_16", false},
			walletElement{"age_over_18", false}, "other_age", notShown},
		signed: walletAge{18, walletElement{"age_over_18", true}, walletElement{"age_over_18", false},
			walletElement{"age_over_21", false}, "other_age", notShown},
		browser: "signed"},
	// A date of birth is of some age, or cannot be read.
	{name: "pid", eku: wallettest.AgeSigner, issuer: elliptic.P256(), device: elliptic.P384(),
		clear: walletAge{18, born("1990-01-01"), born("2025-01-01"), born("1990"), "unconfirmed",
			unconfirmed},
		signed: walletAge{21, born("2005-11-20"), born("2005-11-21"), born("2005-11"), "unconfirmed",
			unconfirmed},
		browser: "signed"},
	// The same profile, whose documents are tokens, by a signer without an extended key usage.
	{name: "pid", eku: "none", format: sdJWT, issuer: elliptic.P384(), device: elliptic.P521(),
		clear: walletAge{18, overClaim("18", true), overClaim("18", false), overClaim("18", "yes"),
			"unconfirmed", unconfirmed},
		signed: walletAge{21, walletElement{"birthdate", "2005-11-20"}, walletElement{"birthdate",
			"2005-11-21"}, walletElement{"birthdate", "2005-11"}, "unconfirmed", unconfirmed},
		browser: "signed"},
}

const sdJWT = "dc+sd-jwt"

func overClaim(age string, value any) walletElement {
	return walletElement{"age_equal_or_over", map[string]any{age: value}}
}

// title names a profile in the report.
func (p walletProfile) title() string {
	if p.format == sdJWT {
		return "sd-jwt"
	}
	return p.name
}

// has reports whether a protocol can carry the documents of a profile.
func (p walletProfile) has(by walletProtocol) bool {
	return p.format == "" || by.name != "org-iso-mdoc"
}

func born(date string) walletElement { return walletElement{"birth_date", wallettest.BirthDate(date)} }

// walletProtocol is a way to a wallet. If method is empty, the browser carries the response.
type walletProtocol struct {
	name, method string
	same         bool // the wallet is on the browser's device
	get          bool // the wallet fetches requests by GET, and not by POST
}

var walletProtocols = []walletProtocol{
	{name: "direct_post, same device", method: "clear", same: true},
	{name: "direct_post, other device", method: "clear"},
	{name: "direct_post.jwt, same device", method: "signed", same: true},
	{name: "direct_post.jwt, other device", method: "signed", get: true},
	{name: "org-iso-mdoc"}, {name: "openid4vp-v1-unsigned"}, {name: "openid4vp-v1-signed"},
}

// walletProtocolsOfBrowsers is the setting browser with all protocols.
var walletProtocolsOfBrowsers = []string{"openid4vp-v1-signed", "openid4vp-v1-unsigned", "org-iso-mdoc"}

// walletCase is a document, and its result for the publisher, the operator and the user.
type walletCase struct {
	name            string
	change          func(w *walletFixture, p *wallettest.Presentation)
	status, code    string // of the session
	result          string // of the step; "": success, which is no step of the record
	reason, setting string
	words           string // on the page
}

var walletCases = []walletCase{
	{name: "accepted", status: "COMPLETED"},
	{name: "rejected", status: "FAILED", code: "PROVIDER_REJECTED", result: "rejected", reason: "rejected",
		words: "could not confirm the age that the site asks for"},
	{name: "revoked", status: "PENDING", result: "attempt_failed", reason: "document_revoked",
		setting: "revocation", words: "Its issuer has withdrawn it.",
		change: func(w *walletFixture, p *wallettest.Presentation) { p.Status = w.registry.document(1) }},
	{name: "untrusted", status: "PENDING", result: "attempt_failed", reason: "untrusted",
		setting: "trust_anchors", words: "Its issuer is not recognised here.",
		change: func(w *walletFixture, p *wallettest.Presentation) { p.Issuer = w.stranger }},
	{name: "expired", status: "PENDING", result: "attempt_failed", reason: "mso_expired",
		words:  "It has expired or is not valid yet.",
		change: func(_ *walletFixture, p *wallettest.Presentation) { p.ValidUntil = p.Signed.Add(1) }},
	{name: "younger", status: "PENDING", result: "attempt_failed", setting: "profile"},
}

// takesCell reports whether a run has a cell of the matrix. In the short run, wasm and workerd have one case
// of each profile and protocol, and the run that starts them has all.
func takesCell(turn string, row, n int) bool {
	switch turn {
	case "":
		return true
	case "wasm":
		return n == row%len(walletCases)
	case "workerd":
		return n == (row+len(walletCases)/2)%len(walletCases)
	}
	return false
}

// walletFixture is a service that asks for documents of a profile, with their issuer and a wallet.
type walletFixture struct {
	*testharness.Harness
	profile  walletProfile
	registry *registry
	stranger *wallettest.Issuer // that the service does not trust
	wallet   *wallettest.Wallet
	key      *ecdsa.PrivateKey // of the device that is accepted. Those on P-256 are faster
	offered  string
}

// TestWalletMatrix walks each profile by each protocol with each document (contract 39, 54, 55). The outcome,
// the operators' reason and the words on the page do not depend on the protocol or the engine.
func TestWalletMatrix(t *testing.T) {
	for n, p := range walletProfiles {
		t.Run(p.title(), func(t *testing.T) {
			w := openFixture(t, p)
			for m, by := range walletProtocols {
				if !p.has(by) {
					continue
				}
				t.Run(by.name, func(t *testing.T) {
					for i, c := range walletCases {
						if takesCell(engineTurn, n*len(walletProtocols)+m, i) {
							t.Run(c.name, func(t *testing.T) {
								matrixHere[t.Name()] = false
								w.walk(t, by, c)
								matrixHere[t.Name()] = !t.Failed()
							})
						}
					}
				})
			}
			for _, date := range []string{"1990-01-01", "2025-01-01", "2005-11-20", "2005-11-21"} {
				if strings.Contains(w.Logs(), date) {
					t.Errorf("contract 39: the log has the date of birth %s", date)
				}
			}
		})
	}
}

func openFixture(t *testing.T, p walletProfile) *walletFixture {
	t.Helper()
	w := &walletFixture{profile: p}
	w.stranger = wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch, EKU: p.eku})
	w.registry = openRegistry(t, wallettest.IssuerConfig{EKU: p.eku, Curve: p.issuer}, []byte{0b10})
	o := &opts{}
	for _, name := range []string{"clear", "signed"} {
		settings := map[string]any{"profile": p.name, "client_id_prefix": "x509_hash",
			"trust_anchors": []string{string(w.registry.issuer.PEM())}, "encrypted": name == "signed",
			"request":       map[string]string{"clear": "value", "signed": "signed"}[name],
			"browser":       walletProtocolsOfBrowsers,
			"verifier_info": `[{"format":"registration_cert","data":"eyJ"}]`}
		addWallet(t, o, name, settings, "private_key", "reader_key")
	}
	if engineName == "" && !inWorker {
		o.KV = inMemory // the cells are not about the store
	}
	w.Harness = newHarness(t, o)
	w.wallet = wallettest.New(w.registry.issuer)
	w.wallet.Now = w.Now
	var err error
	if w.key, err = ecdsa.GenerateKey(p.device, rand.Reader); err != nil {
		t.Fatal(err)
	}
	return w
}

// offer has the service ask by a method, for an age that depends on it.
func (w *walletFixture) offer(name string) walletAge {
	age := w.profile.clear
	if name == "signed" {
		age = w.profile.signed
	}
	if w.offered != name {
		w.offered = name
		w.Reconfigure(w.Publisher.L2, "", func(c *integration.Integration) {
			c.Method, c.MinimumAge, c.Webhook = name, age.age, integration.Webhook{}
		})
	}
	return age
}

// walk is one cell.
func (w *walletFixture) walk(t *testing.T, by walletProtocol, c walletCase) {
	t.Helper()
	name := by.method
	if name == "" {
		name = w.profile.browser
	}
	age := w.offer(name)
	element := age.accepted
	switch c.name {
	case "accepted":
		defer func(was *ecdsa.PrivateKey) { w.wallet.Key = was }(w.wallet.Key)
		w.wallet.Key = w.key
	case "rejected":
		element = age.rejected
	case "younger":
		element, c.reason, c.words = age.younger, age.reason, age.words
	}
	if w.profile.format == sdJWT && c.name == "expired" {
		c.reason = "sd_jwt_expired"
	}
	w.wallet.Elements, w.wallet.Claims = map[string]any{}, map[string]any{"portrait": "not asked for"}
	if w.wallet.Format = w.profile.format; w.wallet.Format == "" {
		w.wallet.Elements = map[string]any{element.name: element.value,
			"portrait": cbor.Tagged(37, cbor.Bytes([]byte("not asked for")))}
	} else {
		w.wallet.Claims[element.name] = element.value
	}
	logged := len(w.Logs())
	started := w.Start(testharness.Body{"integration_id": w.Publisher.L2.ID})
	page := w.Open(started.RedirectURL).Submit("begin")
	done := w.answer(t, page, by, func(p *wallettest.Presentation) {
		if p.Status = w.registry.document(0); c.change != nil {
			c.change(w, p)
		}
	})
	if (done.Callback != nil) != (c.status == "COMPLETED") || !strings.Contains(string(done.Body), c.words) ||
		(done.Kind == "method") != (c.status == "PENDING") {
		_, main, _ := strings.Cut(string(done.Body), "<main>")
		t.Errorf("contract 48, 55: a %s page (%d), want the words %q: %s", done.Kind, done.Status, c.words,
			main)
	}
	w.wantStep(t, started.SessionID, name, c, w.Logs()[logged:])
}

// answer has the wallet answer, and returns the page that the user sees after it.
func (w *walletFixture) answer(t *testing.T, page *testharness.Page, by walletProtocol,
	change func(*wallettest.Presentation)) *testharness.Page {
	t.Helper()
	if by.method == "" {
		f := page.StepForm("credential", nil)
		all := credentialRequests(t, f)
		n := slices.IndexFunc(all, func(r credentialRequest) bool { return r.Protocol == by.name })
		if n < 0 {
			t.Fatalf("contract 55: the page does not ask by %s", by.name)
		}
		data, err := w.wallet.Credential(w.BaseURL, by.name, all[n].Data, change)
		if err != nil {
			t.Fatal(err)
		}
		f.Fields.Set("credential", fmt.Sprintf(`{"protocol":%q,"data":%s}`, by.name, data))
		return page.SubmitForm(f)
	}
	w.wallet.OnlyGet, w.wallet.Client = by.get, &http.Client{Transport: methodtest.Carrier{Page: page}}
	link := page.Code
	if by.same {
		link = page.Wallet
	}
	reply, err := w.wallet.Answer(t.Context(), link, change)
	if err != nil || reply.Status != http.StatusOK {
		t.Fatalf("contract 39: %+v, %v", reply, err)
	}
	if by.same {
		return page.Go(reply.RedirectURI)
	}
	return page.LoadAgain()
}

// wantStep checks the reason in the operators' view of a session, and in its log.
func (w *walletFixture) wantStep(t *testing.T, session, by string, c walletCase, log string) {
	t.Helper()
	var shown struct {
		Status string
		Code   string `json:"failure_code"`
		Steps  []struct{ Method, Result, Reason, Setting string }
	}
	r := w.Admin("GET", "/admin/v1/sessions/"+session, nil)
	if err := json.Unmarshal(r.Body, &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Status != c.status || shown.Code != c.code {
		t.Errorf("contract 39: want a session that is %s %s: %s", c.status, c.code, r.Body)
	}
	if c.result == "" {
		if len(shown.Steps) > 0 {
			t.Errorf("contract 48: a session with success has steps without: %s", r.Body)
		}
		return
	}
	if n := len(shown.Steps); n != 1 || shown.Steps[0].Method != by || shown.Steps[0].Result != c.result ||
		shown.Steps[0].Reason != c.reason || shown.Steps[0].Setting != c.setting {
		t.Errorf("contract 48: want %s, %s, %s, %s: %s", by, c.result, c.reason, c.setting, r.Body)
	}
	if !slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
		return strings.Contains(line, `"session":"`+session+`"`) &&
			strings.Contains(line, `"reason":"`+c.reason+`"`)
	}) {
		t.Errorf("contract 48: the log of the session lacks %s: %s", c.reason, log)
	}
}

// matrixHere has the cells of this run by their names, and whether they have passed.
var matrixHere = map[string]bool{}

// matrixRow is the cases of one profile and protocol on one engine.
type matrixRow struct {
	cases  int
	failed []string // their names
}

func (r matrixRow) String() string {
	switch {
	case r.cases == 0:
		return "-" // another engine has its turn
	case len(r.failed) > 0:
		return fmt.Sprint("FAIL ", len(r.failed))
	}
	return fmt.Sprint(r.cases, " ok")
}

// matrixRows returns the rows of an engine, by the profiles and the protocols. takes reports whether a case
// was to run, and passed whether the test of that name has passed.
func matrixRows(takes func(test string, row, n int) bool, passed func(test string) bool) (rows []matrixRow) {
	for _, p := range walletProfiles {
		for _, by := range walletProtocols {
			var r matrixRow
			for i, c := range walletCases {
				test := strings.ReplaceAll("TestWalletMatrix/"+p.title()+"/"+by.name+"/"+c.name, " ", "_")
				if !p.has(by) || !takes(test, len(rows), i) {
					continue
				}
				if r.cases++; !passed(test) {
					r.failed = append(r.failed, c.name)
				}
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// rowsHere are the rows of this run.
func rowsHere() []matrixRow {
	return matrixRows(func(test string, _, _ int) bool { _, ran := matrixHere[test]; return ran },
		func(test string) bool { return matrixHere[test] })
}

// matrix shows the rows of all columns that have some, by protocol and profile, and below them the cases that
// failed. The column of the run itself is native, and in memory. An empty line would end the report.
func matrix(columns []column) string {
	var out, notes strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return !slices.ContainsFunc(c.matrix, func(r matrixRow) bool { return r.cases > 0 })
	})
	out.WriteString("= TestWalletMatrix: documents by protocol, profile and engine\n")
	fmt.Fprint(w, "protocol\tprofile")
	for i := range columns {
		if columns[i].none != "" {
			columns[i].name = "native"
		}
		fmt.Fprint(w, "\t", columns[i].name)
	}
	fmt.Fprintln(w)
	for m, by := range walletProtocols {
		for n, p := range walletProfiles {
			if !p.has(by) {
				continue
			}
			fmt.Fprint(w, by.name, "\t", p.title())
			for _, c := range columns {
				r := c.matrix[n*len(walletProtocols)+m]
				fmt.Fprint(w, "\t", r)
				if names := strings.Join(r.failed, ", "); names != "" {
					if len(r.failed) == len(walletCases) {
						names = "all"
					}
					fmt.Fprintf(&notes, "FAIL on %s: %s, %s: %s\n", c.name, by.name, p.title(), names)
				}
			}
			fmt.Fprintln(w)
		}
	}
	w.Flush()
	return out.String() + notes.String()
}

func TestMatrix_Report(t *testing.T) {
	all := func(string, int, int) bool { return true }
	share := func(_ string, row, n int) bool { return takesCell("workerd", row, n) }
	bad := "TestWalletMatrix/pid/direct_post,_other_device/"
	passed := func(test string) bool { return test != bad+"revoked" && test != bad+"expired" }
	none := func(string, int, int) bool { return false }
	text := matrix([]column{{name: "wasm", matrix: matrixRows(all, passed)},
		{name: "workerd", matrix: matrixRows(share, passed)},
		{name: "bolt", matrix: matrixRows(none, passed)},
		{name: "miniredis", none: "HERE", matrix: matrixRows(all, passed)},
		{name: "redis", none: "SKIP: redis-server is not installed"}})
	for _, want := range []string{
		"protocol                       profile  wasm    workerd  native\n",
		"\norg-iso-mdoc                   eu-av    6 ok    1 ok     6 ok\n",
		"\ndirect_post, other device      pid      FAIL 2  1 ok     FAIL 2\n",
		"\ndirect_post, other device      sd-jwt   6 ok    1 ok     6 ok\n",
		"\nFAIL on wasm: direct_post, other device, pid: revoked, expired\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the matrix does not hold %q:\n%s", want, text)
		}
	}
	var wide []column
	for _, e := range engines {
		few := func(test string) bool { return strings.HasSuffix(test, "/younger") }
		wide = append(wide, column{name: e.name, matrix: matrixRows(all, few)})
	}
	for line := range strings.Lines(matrix(wide)) {
		if len(line) > 110 || line == "\n" {
			t.Errorf("the matrix of all engines has a line of %d columns: %s", len(line), line)
		}
	}
	for row := range len(walletProfiles) * len(walletProtocols) {
		for _, e := range others() {
			n, want := 0, 0
			for i := range walletCases {
				if takesCell(e, row, i) {
					n++
				}
			}
			if slices.Contains(turnsOf("TestWalletMatrix"), e) {
				want = 1
			}
			if n != want {
				t.Errorf("the short run has %d cases of row %d on %s, want %d", n, row, e, want)
			}
		}
	}
}
