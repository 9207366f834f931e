package cli

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// walkDev begins at the shop of a `verge dev` with the choice of that integration.
func walkDev(t *testing.T, pub *publisher, integration string) *person {
	t.Helper()
	p := newPerson(t)
	p.open(pub.DemoURL + "/")
	p.submit("action", "/start", url.Values{"integration": {integration}})
	return p
}

// verified fails the test unless the person is back in the shop, which shows the facts of that choice.
func (p *person) verified(title, level, age string) {
	p.t.Helper()
	p.reads("Your age is verified", "Chosen "+title, "Level "+level, "Challenge age "+age)
}

// told fails the test unless the inbox has exactly these events of the session that began last, in any order.
func told(t *testing.T, pub *publisher, want ...string) {
	t.Helper()
	var got []string
	wait.Until(t, "the events "+strings.Join(want, ", "), func() bool {
		got = nil
		for _, d := range inboxOf(t, pub) {
			if d.Verified {
				got = append(got, strings.TrimPrefix(d.Type, "verification."))
			}
		}
		return len(got) >= len(want)
	})
	count := map[string]int{}
	for n := range want {
		count[want[n]]++
		count[got[n]]--
	}
	for event, n := range count {
		if n != 0 {
			t.Errorf("the inbox has %v, want %v: %s", got, want, event)
		}
	}
}

// bank answers at the simulated bank.
func (p *person) bank(choice string) {
	p.t.Helper()
	p.reads("Simulated", "This is not a real bank")
	p.submit("action", "/idp/answer", url.Values{"choice": {choice}})
}

func TestDevBank(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		choice, says string
		events       []string
	}{
		{"adult", "Your age is verified", []string{"started", "completed"}},
		{"younger", "Your age was not confirmed", []string{"started", "failed"}},
		{"silent", "did not confirm your age", []string{"started"}}, // a failed attempt (contract 33)
	} {
		t.Run("contract 36: "+tt.choice, func(t *testing.T) {
			program, _, _ := testProgram()
			pub, stop := devHere(t, program)
			defer stop()
			p := walkDev(t, pub, pub.Integrations["bank"])
			p.reads("Confirm your age with Demo Bank ID")
			p.submit("data-outcome", "begin", nil)
			p.bank(tt.choice)
			p.reads(tt.says)
			if slices.Contains(tt.events, "completed") {
				p.verified("Demo Bank ID", "L2", "18")
			}
			told(t, pub, tt.events...)
		})
	}
}

// TestDevBankCancelled also shows at which sites a browser is on the way.
func TestDevBankCancelled(t *testing.T) {
	t.Parallel()
	program, _, _ := testProgram()
	pub, stop := devHere(t, program)
	defer stop()
	p := walkDev(t, pub, pub.Integrations["bank"])
	p.submit("data-outcome", "begin", nil)
	p.bank("cancel")
	p.reads("Check cancelled")
	again := p.find("a", "class", "button")
	if again == nil {
		t.Fatalf("contract 23: the page does not offer to try again: %s", p.text())
	}
	p.open(pub.BaseURL + attribute(again, "href"))
	p.submit("data-outcome", "begin", nil)
	p.bank("adult")
	p.verified("Demo Bank ID", "L2", "18")
	told(t, pub, "started", "completed")

	shop, verge := strings.TrimPrefix(pub.DemoURL, "http://"), strings.TrimPrefix(pub.BaseURL, "http://")
	want := []string{shop, verge, shop, verge, shop, verge, shop}
	if strings.Join(p.sites, " ") != strings.Join(want, " ") {
		t.Errorf("the browser was at %v, want %v", p.sites, want)
	}
}

// answers sets the result of all further pictures on the page of the simulated estimator.
func answers(t *testing.T, pub *publisher, choice string) {
	t.Helper()
	p := newPerson(t)
	p.open(pub.DemoURL + "/estimator/")
	p.reads("Simulated", "This estimator ignores pictures")
	p.submit("action", "/estimator/answer", url.Values{"choice": {choice}})
	if chosen := p.find("input", "value", choice); chosen == nil || !hasAttribute(chosen, "checked") {
		t.Errorf("the page does not show that %s is chosen: %s", choice, p.text())
	}
}

func TestDevCamera(t *testing.T) {
	t.Parallel()
	program, _, _ := testProgram()
	pub, stop := devHere(t, program)
	defer stop()
	picture := somePicture(t)
	for _, tt := range []struct{ choice, says string }{
		{"15", "The estimate is below the age that the site asks for"},
		{"uncertain", "The estimate was not certain enough"},
		{"no_face", "The photo shows no face, or more than one"},
		{"not_live", "We could not confirm that the photo was taken just now"},
		{"broken", "The other service did not respond"},
	} {
		t.Run("contract 37: "+tt.choice+", then 30", func(t *testing.T) {
			answers(t, pub, tt.choice)
			p := walkDev(t, pub, pub.Integrations["camera"])
			camera := p.at.String()
			p.send(picture)
			p.reads(tt.says)
			answers(t, pub, "30")
			p.open(camera)
			if tt.choice == "broken" {
				p.reads(tt.says)
			}
			p.send(picture)
			p.verified("Demo camera", "L1", "25")
		})
	}
	t.Run("contract 23: the third failed picture is the last", func(t *testing.T) {
		answers(t, pub, "15")
		p := walkDev(t, pub, pub.Integrations["camera"])
		for range 3 {
			p.send(picture)
		}
		p.reads("No attempts left")
	})
	told(t, pub, "started", "started", "started", "started", "started", "started",
		"completed", "completed", "completed", "completed", "completed", "failed")
}

// wallet takes the person to the simulated wallet, by the link on the page, and answers there.
func (p *person) wallet(choice string) {
	p.t.Helper()
	link := p.find("a", "data-wallet", "")
	if link == nil {
		p.t.Fatalf("contract 39: the page at %s has no link to a wallet: %s", p.at, p.text())
	}
	p.open(attribute(link, "href"))
	p.reads("Simulated", "This is not a real wallet", "age_over_18")
	p.submit("action", "/wallet/answer", url.Values{"choice": {choice}})
}

// TestDevWallet opens the simulated wallet on the same device, and also as if on another one.
func TestDevWallet(t *testing.T) {
	t.Parallel()
	program, _, _ := testProgram()
	pub, stop := devHere(t, program)
	defer stop()
	asks := func(t *testing.T) *person {
		p := walkDev(t, pub, pub.Integrations["wallet"])
		p.reads("Confirm your age with your wallet")
		p.submit("data-outcome", "begin", nil)
		return p
	}
	for _, tt := range []struct{ choice, says string }{
		{"adult", "Your age is verified"},
		{"younger", "Your age was not confirmed"},
		{"decline", "Check cancelled"},
	} {
		t.Run("contract 39: "+tt.choice, func(t *testing.T) {
			p := asks(t)
			p.wallet(tt.choice)
			p.reads(tt.says)
		})
	}
	t.Run("contract 39: on another device", func(t *testing.T) {
		p := asks(t)
		other := newPerson(t)
		other.open(p.code())
		other.submit("action", "/wallet/answer", url.Values{"choice": {"adult"}})
		other.reads("This wallet has responded")
		p.open(p.at.String()) // as the page does automatically
		p.verified("Demo wallet", "L2", "18")
	})
	told(t, pub, "started", "started", "started", "started", "completed", "completed", "failed")
}

// code returns the text of the page's code.
func (p *person) code() string {
	p.t.Helper()
	for n := range p.page.Descendants() {
		switch {
		case attribute(n, "data-qr") != "":
			return attribute(n, "data-qr")
		case n.Data == "code" && hasAttribute(n, "data-code"):
			return n.FirstChild.Data
		}
	}
	p.t.Fatalf("contract 39: the page at %s has no code: %s", p.at, p.text())
	return ""
}

// TestDevChoice chooses among all methods, and another one after a picture that did not do.
func TestDevChoice(t *testing.T) {
	t.Parallel()
	program, _, _ := testProgram()
	pub, stop := devHere(t, program)
	defer stop()
	p := walkDev(t, pub, pub.IntegrationIDAll)
	p.reads("How do you want to confirm your age?", "Demo Bank ID", "Demo camera")
	p.submit("data-method", "camera", nil)
	answers(t, pub, "15")
	p.send(somePicture(t))
	p.reads("The estimate is below", "2 attempts left")
	p.open(pub.BaseURL + attribute(p.linkTo("Choose another way"), "href"))
	p.submit("data-method", "bank", nil)
	p.submit("data-outcome", "begin", nil)
	p.bank("adult")
	p.verified("Let me choose", "L1", "25")

	p = walkDev(t, pub, pub.IntegrationIDAll)
	p.submit("data-method", "sandbox", nil)
	p.submit("data-outcome", "approve", nil)
	p.verified("Let me choose", "L1", "25")
	told(t, pub, "started", "completed", "started", "completed")
}

// TestDevMethodsInAGuest walks the methods where a module runs the core.
func TestDevMethodsInAGuest(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	module := g.put("verge.wasm", testenv.Module(t))
	g.compile(module)
	dir := t.TempDir()
	if err := os.CopyFS(moduleCache(filepath.Join(dir, "data")), os.DirFS(g.cache())); err != nil {
		t.Fatal(err)
	}
	pub := startDev(t, dir, "--engine", "wasm", "--module", module, "--kv", "memory",
		"--log-level", "warn").publisher
	if pub.Engine != "wasm" {
		t.Fatalf("the ready file says engine %q", pub.Engine)
	}
	p := walkDev(t, pub, pub.Integrations["bank"])
	p.submit("data-outcome", "begin", nil)
	p.bank("adult")
	p.verified("Demo Bank ID", "L2", "18")

	p = walkDev(t, pub, pub.IntegrationIDAll)
	p.submit("data-method", "camera", nil)
	answers(t, pub, "15")
	p.send(somePicture(t))
	p.reads("The estimate is below")
	answers(t, pub, "30")
	p.send(somePicture(t))
	p.verified("Let me choose", "L1", "25")
	told(t, pub, "started", "completed", "started", "completed")
}

// TestDevMethodsFile adds a method of a file, whose provider is missing.
func TestDevMethodsFile(t *testing.T) {
	t.Parallel()
	program, stdout, _ := testProgram()
	write := func(path, text string) {
		if err := afero.WriteFile(program.FS, path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("/secret", "not the bank's\n")
	write("/methods.toml", `
[[methods]]
name = "eid"
kind = "oidc"
title = "My eID"
[methods.oidc]
issuer = "http://127.0.0.1:1"
client_id = "me"
client_secret_file = "/secret"
proof = { claim = ["is_over_18"], equals = true, age = 18 }
[[methods]]
name = "school"
kind = "oidc"
[methods.oidc]
issuer = "http://127.0.0.1:1"
client_id = "me"
client_secret_file = "/secret"
proof = { claim = ["is_over_16"], equals = true, age = 16 }
`)
	pub, stop := devHere(t, program, "--methods", "/methods.toml", "--verbose")
	if pub.Integrations["eid"] == "" || pub.Integrations["school"] == "" ||
		pub.Integrations["sandbox"] != pub.IntegrationID {
		t.Fatalf("contract 41: the ready file's integrations are %v", pub.Integrations)
	}
	p := newPerson(t)
	p.open(pub.DemoURL + "/")
	p.reads("My eID", "your method eid, of kind oidc")
	p.submit("action", "/start", url.Values{"integration": {pub.Integrations["eid"]}})
	p.reads("The verification provider did not respond", "PROVIDER_UNAVAILABLE")
	p = walkDev(t, pub, pub.IntegrationIDAll)
	p.submit("data-method", "eid", nil)
	p.reads("Not available right now")
	if strings.Contains(p.text(), "school") {
		t.Error("contract 32: all methods have one that proves 16, for a minimum age of 18")
	}
	p = newPerson(t)
	p.open(pub.DemoURL + "/")
	p.reads("school", "your method school, of kind oidc")
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	// The program writes no more.
	if !strings.Contains(stdout.String(), pub.Integrations["eid"]+"   eid") {
		t.Errorf("the welcome does not name the integration of eid: %s", stdout)
	}
}

func TestDevMethodsFileMistyped(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       []string
	}{
		{"everything at once", `
base_url = "https://verify.example"
[[methods]]
name = "bank"
kind = "oidc"
[methods.oidc]
issuer = "http://idp.example"
clientid = "x"
[[methods]]
name = "cam"
kind = "estimater"
level = 1
`, []string{
			`--methods /methods.toml: `,
			`line 2: unknown setting "base_url" here; the file has only methods`,
			"methods.bank: `verge dev` already has a method of that name",
			"methods.bank.oidc.issuer: The URL must use https, or http to a loopback host",
			"methods.bank.oidc.clientid: there is no such setting",
			"methods.bank.oidc.client_id: the name of this client at the provider is missing",
			"methods.cam.level must be a text in quotes",
			`methods.cam.kind: "estimater" is not known; this release has: sandbox, oidc, estimator`,
		}},
		{"an empty secret", `
[[methods]]
name = "eid"
kind = "oidc"
[methods.oidc]
client_secret_file = "/empty"
`, []string{"methods.eid.oidc.client_secret_file: /empty: it is empty"}},
		{"no methods", "", []string{"the file has no methods; each begins with a line [[methods]]"}},
		{"no TOML", "[[methods", []string{"--methods: /methods.toml: line 1, column "}},
		{"another type", "methods = 3", []string{"methods must be tables, each under a line [[methods]]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _, stderr := testProgram()
			for path, text := range map[string]string{"/methods.toml": tt.file, "/empty": "\n"} {
				if err := afero.WriteFile(p.FS, path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			code := run(t.Context(), []string{"dev", "--addr", "127.0.0.1:0", "--demo-addr", "127.0.0.1:0",
				"--kv", "memory", "--data", "/data", "--methods", "/methods.toml"}, p)
			if code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
			for _, want := range tt.want {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("it does not contain %q:\n%s", want, stderr)
				}
			}
		})
	}
}
