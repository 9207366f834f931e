package integration

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/kv"
)

// logoFile is a logo of that width.
func logoFile(t *testing.T, width int) []byte {
	t.Helper()
	var out bytes.Buffer
	coretest.Must(t, png.Encode(&out, image.NewGray(image.Rect(0, 0, width, 32))))
	return out.Bytes()
}

// brands saves a publisher with that file as its logo.
func (w *fixture) brands(t *testing.T, file []byte) Publisher {
	t.Helper()
	old, err := w.ReadPublisher(ctx, "pub_a")
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	p := old.Value
	p.ID, p.Accent = "pub_a", "#1f5c4d"
	p, problem := p.SetLogo(file)
	if problem != "" {
		t.Fatal(problem)
	}
	puts, err := w.PutLogo(ctx, old.Value.Logo, p, file)
	coretest.Must(t, err)
	_, err = w.SavePublisher(ctx, p, old.Version, puts...)
	coretest.Must(t, err)
	return p
}

func TestLogo_StoredUnderItsHash(t *testing.T) {
	w := newFixture(t)
	first := w.brands(t, logoFile(t, 64))
	if l := first.Logo; l.Width != 64 || l.Height != 32 || l.ContentType() != "image/png" {
		t.Errorf("contract 52: the logo is %+v, %s", l, l.ContentType())
	}
	if got, err := w.Logo(ctx, first.Logo.Name); err != nil || !bytes.Equal(got, logoFile(t, 64)) {
		t.Errorf("contract 52: the file is %d bytes, %v", len(got), err)
	}
	second := w.brands(t, logoFile(t, 80))
	if _, err := w.Logo(ctx, first.Logo.Name); err != nil {
		t.Errorf("contract 52: a replaced logo is gone before its hour: %v", err)
	}
	w.Clock.Advance(logoRest + time.Minute)
	if _, err := w.Logo(ctx, first.Logo.Name); !errors.Is(err, ErrNotFound) {
		t.Errorf("contract 52: a replaced logo after its hour: %v", err)
	}
	if _, err := w.Logo(ctx, second.Logo.Name); err != nil {
		t.Errorf("contract 52: the present logo: %v", err)
	}
	if third := w.brands(t, nil); third.Logo != nil {
		t.Errorf("contract 52: a removed logo is %+v", third.Logo)
	}
	other, _ := Publisher{ID: "pub_b"}.SetLogo(logoFile(t, 80))
	if other.Logo.Name == second.Logo.Name {
		t.Error("contract 52: two publishers share a file, so one could end it for the other")
	}
}

func TestLogo_AnotherContent(t *testing.T) {
	w := newFixture(t)
	p := w.brands(t, logoFile(t, 64))
	coretest.Must(t, kv.CommitSurely(ctx, w.Memory, kv.Tx{ID: "forged", Partition: Partition,
		Puts: []kv.Put{{Name: logoItems + p.Logo.Name, Value: logoFile(t, 65)}}}))
	if _, err := w.Logo(ctx, p.Logo.Name); !errors.Is(err, ErrNotFound) {
		t.Errorf("contract 52: a file that the hash is not of: %v", err)
	}
	hash := strings.Repeat("a", 2*fileHash)
	for _, name := range []string{"", "x", "../c/pub/pub_a", strings.Repeat("a", 16) + "." + hash + ".svg",
		strings.Repeat("A", 16) + "." + hash + ".png", hash + ".png", p.Logo.Name + ".png"} {
		if _, err := w.Logo(ctx, name); !errors.Is(err, ErrNotFound) {
			t.Errorf("contract 52: the name %q: %v", name, err)
		}
	}
	next, _ := p.SetLogo(logoFile(t, 70))
	if _, err := w.PutLogo(ctx, p.Logo, next, logoFile(t, 71)); err == nil {
		t.Error("contract 52: a publisher is saved with another file than its logo")
	}
}

func TestSite_Brand(t *testing.T) {
	w := newFixture(t)
	site := Site{
		Publishers: []SitePublisher{{ID: "pub_a", Name: "A", Accent: "#1f5c4d", Logo: logoFile(t, 64)}},
	}
	coretest.Must(t, w.Put(ctx, site, KeepRemoved, nil))
	p, err := w.ReadPublisher(ctx, "pub_a")
	coretest.Must(t, err)
	if p.Value.Accent != "#1f5c4d" || p.Value.Logo == nil {
		t.Fatalf("contract 52: the file's publisher is %+v", p.Value)
	}
	if _, err := w.Logo(ctx, p.Value.Logo.Name); err != nil {
		t.Errorf("contract 52: the file's logo: %v", err)
	}
	plan, err := w.Plan(ctx, site, KeepRemoved)
	if err != nil || len(plan) != 0 {
		t.Errorf("contract 52: the same file again changes %+v, %v", plan, err)
	}
	for _, e := range w.audited(t) {
		for _, c := range e.Changes {
			if len(c.To) > 100 {
				t.Errorf("contract 52: the audit has %s with %d bytes", c.Field, len(c.To))
			}
		}
	}
	site.Publishers[0].Accent, site.Publishers[0].Logo = "green", []byte("<svg/>")
	if wrong := site.Problems(nil, false, nil); !wrong.Has("publishers.0.accent") ||
		!wrong.Has("publishers.0.logo") {
		t.Errorf("contract 52: a bad brand has the problems %v", wrong)
	}
}
