package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/troubleshooting"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/webhook"
)

func TestAssetsAreAddressedByTheirContent(t *testing.T) {
	for _, a := range []Asset{Style(), Script()} {
		sum := sha256.Sum256(a.Body)
		hash := hex.EncodeToString(sum[:8])
		if !strings.HasPrefix(a.Path, "/console/assets/console."+hash+".") || a.ETag != `"`+hash+`"` {
			t.Errorf("the asset is %s, %s", a.Path, a.ETag)
		}
	}
	for _, word := range []string{"url(", "@import", "@font-face"} {
		if strings.Contains(string(Style().Body), word) {
			t.Errorf("the stylesheet has %q, and so loads something", word)
		}
	}
}

// block returns what stands between the braces behind the first occurrence of head.
func block(t *testing.T, sheet, head string) string {
	t.Helper()
	_, rest, ok := strings.Cut(sheet, head)
	if !ok {
		t.Fatalf("the stylesheet has no %q", head)
	}
	depth := 0
	for i, r := range rest {
		switch r {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return rest[:i]
			}
		}
	}
	t.Fatalf("%q does not end", head)
	return ""
}

func TestMotionOnlyWithoutReducedMotion(t *testing.T) {
	welcome := block(t, string(css), "@media (prefers-reduced-motion: no-preference)")
	for _, word := range []string{"animation:", "transition:"} {
		if all := strings.Count(string(css), word); all != strings.Count(welcome, word) {
			t.Errorf("WCAG 2.3.3: a %q is outside prefers-reduced-motion: no-preference", word)
		}
	}
}

// luminance is WCAG 2's relative luminance of #rrggbb.
func luminance(t *testing.T, hex string) float64 {
	n, err := strconv.ParseUint(hex[1:], 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	channel := func(shift uint) float64 {
		c := float64(n>>shift&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(16) + 0.7152*channel(8) + 0.0722*channel(0)
}

var property = regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`)

func colours(t *testing.T, head string) map[string]float64 {
	m := map[string]float64{}
	for _, p := range property.FindAllStringSubmatch(block(t, string(css), head), -1) {
		m[p[1]] = luminance(t, p[2])
	}
	return m
}

func TestContrast(t *testing.T) {
	const words, shape = 4.5, 3 // WCAG 1.4.3 and 1.4.11
	type pair struct {
		front, back string
		least       float64
	}
	pairs := []pair{
		{"on-accent", "accent", words}, {"on-accent", "accent-strong", words}, {"accent", "accent-soft",
			words},
		{"text", "accent-soft", words}, {"text", "sunk", words}, {"muted", "sunk", words}, {"text",
			"idle-soft", words},
		{"control", "card", shape}, {"control", "ground", shape}, {"bad", "card", words}, {"bad", "ground",
			words},
	}
	for _, ground := range []string{"card", "ground"} {
		for _, front := range []string{"text", "muted", "accent", "accent-strong"} {
			pairs = append(pairs, pair{front, ground, words})
		}
	}
	for _, tone := range []string{"good", "wait", "bad", "idle"} {
		pairs = append(pairs, pair{tone, tone + "-soft", words}, pair{tone, "card", words})
	}
	for _, series := range []string{"started", "completed", "failed", "cancelled", "expired"} {
		pairs = append(pairs, pair{series, "card", shape})
	}
	for theme, head := range map[string]string{"light": ":root",
		"dark": "@media (prefers-color-scheme: dark)"} {
		c := colours(t, head)
		paired := map[string]bool{"edge": true, "paper": true} // mere decoration
		for _, p := range pairs {
			paired[p.front], paired[p.back] = true, true
			front, ok1 := c[p.front]
			back, ok2 := c[p.back]
			if !ok1 || !ok2 {
				t.Fatalf("%s: --%s or --%s is not defined", theme, p.front, p.back)
			}
			if got := (max(front, back) + .05) / (min(front, back) + .05); got < p.least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, less than %v", theme, p.front, p.back, got,
					p.least)
			}
		}
		for name := range c {
			if !paired[name] {
				t.Errorf("%s: no pair here has --%s, so nothing computes its contrast", theme, name)
			}
		}
	}
	// A colour written anywhere else would escape this test.
	rules := string(css)
	for _, head := range []string{":root", "@media (prefers-color-scheme: dark)"} {
		rules = strings.Replace(rules, block(t, string(css), head), "", 1)
	}
	if m := regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b|rgb\(|hsl\(`).FindString(rules); m != "" {
		t.Errorf("the colour %s is not one of the properties", m)
	}
}

// Every probe of the signed test has a name for people, and lines of code in every language.
func TestProbes_Explained(t *testing.T) {
	for _, p := range webhook.Probes("a secret that is long enough", webhook.Event{}, at0) {
		a, ok := troubleshooting.For(p.Name)
		if askedOf(operate.ProbeReport{Name: p.Name}) == p.Name || !ok {
			t.Errorf("the probe %s has no words", p.Name)
		}
		for _, l := range troubleshooting.Languages() {
			if a.Code(l) == "" {
				t.Errorf("the probe %s has no lines in %s", p.Name, l.Name)
			}
		}
	}
}
