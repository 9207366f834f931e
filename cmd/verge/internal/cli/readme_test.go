package cli

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/demo"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/testharness/chromium"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wait"
)

var update = flag.Bool("update", false, "write the pictures and texts of testdata/readme")

// The pictures of README.md show `verge dev`. Pixels differ between versions of Chromium, so the test
// compares the texts of the pages, and fails if one has changed since its picture was made.
func TestReadmePictures(t *testing.T) {
	long.Skip(t, "TestReadmePictures")
	t.Parallel()
	browser := chromium.Start(t)
	p, _, _ := testProgram()
	begin := time.Now()
	var later atomic.Int64 // moves the clock of the service
	p.Now = func() time.Time {
		first := time.Date(2026, 10, 22, 9, 0, 0, 0, time.UTC)
		return first.Add(time.Since(begin) + time.Duration(later.Load()))
	}
	pub, stop := devHere(t, p)
	defer stop()
	monthOfSessions(t, pub, &later)

	user := newConsoleUser(t, browser, pub.BaseURL)
	user.do(devtools(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}}))
	user.do(chromedp.EmulateViewport(1200, 1150))
	user.open(pub.DemoURL + demo.ConsolePath)
	user.says("Oak & Ember (demo)") // the page of the link submits itself
	user.open("/console/p/" + pub.PublisherID)
	user.reads("Sessions of the last 30 days", "Outcome by method")
	user.shot("console")

	user.do(chromedp.EmulateViewport(390, 900, chromedp.EmulateMobile, chromedp.EmulateScale(1.5)))
	_, redirect, err := pub.start(pub.IntegrationIDAll)
	if err != nil {
		t.Fatal(err)
	}
	user.open(redirect)
	user.reads("Oak & Ember", "Demo Bank ID")
	user.shot("flow")
}

// monthOfSessions has sessions end in each of 30 days, and waits until the console counts them. It returns in
// the last day.
func monthOfSessions(t *testing.T, pub *publisher, later *atomic.Int64) {
	t.Helper()
	sessions, events := 0, 0
	for day := range 30 {
		if day > 0 {
			later.Add(int64(24 * time.Hour))
		}
		for n := range 1 + day/10 + (day*5)%3 {
			sessions++
			events += endSession(t, pub, day+n)
		}
		wait.Until(t, "the events of the day", func() bool { // a day later they would have failed
			arrived := map[string]bool{}
			for _, d := range inboxOf(t, pub) {
				if d.Type != "verification.expired" {
					arrived[d.IdempotencyKey] = true
				}
			}
			return len(arrived) == events
		})
	}
	later.Add(int64(11 * time.Minute)) // open sessions expire
	operator, err := adminclient.New(adminclient.Config{URL: pub.AdminURL, Token: pub.OperatorToken})
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the usage of all sessions", func() bool {
		ended := 0
		for _, integration := range []string{pub.IntegrationID, pub.Integrations["bank"]} {
			seen, err := adminclient.Do(t.Context(), operator, operate.ReadUsage,
				operate.UsageQuery{Integration: integration})
			if err != nil {
				t.Fatal(err)
			}
			for _, day := range seen.Days {
				for outcome, n := range day.Counts {
					if outcome != host.OutcomeStarted {
						ended += int(n)
					}
				}
			}
		}
		return ended >= sessions
	})
}

// endSession begins a session and ends it in one of several ways, or leaves it. It returns the number of its
// events.
func endSession(t *testing.T, pub *publisher, way int) (events int) {
	t.Helper()
	if way%3 == 1 {
		p := walkDev(t, pub, pub.Integrations["bank"])
		p.submit("data-outcome", "begin", nil)
		p.bank("adult")
		p.reads("Your age is verified")
		return 2
	}
	_, redirect, err := pub.start(pub.IntegrationID)
	if err != nil {
		t.Fatal(err)
	}
	outcome := "approve"
	switch way % 9 {
	case 3:
		outcome = "reject"
	case 8:
		return 1
	}
	if _, err := pub.choose(redirect, outcome); err != nil {
		t.Fatal(err)
	}
	return 2
}

// differing matches the parts of a text that differ in each run: ids, addresses, times of day and durations.
var differing = regexp.MustCompile(
	`pub_dev_\w+|svc_sess_\S+|\b(localhost|127\.0\.0\.1):\d+|\b\d\d:\d\d(:\d\d)?\b|\b\d+ m?s\b|[0-9a-f]{8}-[0-9a-f-]{27}`,
)

// shot compares the text of the page with a file. With -update, it writes the file and a picture of the page.
func (p *consoleUser) shot(name string) {
	p.t.Helper()
	const limit = 150 << 10
	picture := filepath.Join("testdata", "readme", name+".png")
	texts := filepath.Join("testdata", "readme", name+".txt")
	text := differing.ReplaceAllString(strings.TrimSpace(evaluate[string](p, pageText)), "…") + "\n"
	if *update {
		b, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			p.t.Fatal(err)
		}
		for path, b := range map[string][]byte{picture: b, texts: []byte(text)} {
			if err := os.WriteFile(path, b, 0o644); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	want, err := os.ReadFile(texts)
	if err != nil || string(want) != text {
		p.t.Errorf(
			"%v: make the picture again, with -update: the page reads\n%s\nits picture\n%s",
			err,
			text,
			want,
		)
	}
	b, err := os.ReadFile(picture)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := png.DecodeConfig(bytes.NewReader(b)); err != nil || len(b) > limit {
		p.t.Errorf("%s has %d bytes, want a PNG of at most %d: %v", picture, len(b), limit, err)
	}
}

// The pictures of README.md are in the repository.
func TestReadme_ShowsPictures(t *testing.T) {
	readme := readText(t, "../../../../README.md")
	for _, name := range []string{"flow", "console"} {
		if !strings.Contains(readme, "](cmd/verge/internal/cli/testdata/readme/"+name+".png)") &&
			!strings.Contains(readme, `src="cmd/verge/internal/cli/testdata/readme/`+name+`.png"`) {
			t.Errorf("README.md does not show %s.png", name)
		}
	}
}
