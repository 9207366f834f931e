package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func TestStyleIsAddressedByItsContent(t *testing.T) {
	s := Style()
	sum := sha256.Sum256(s.Body)
	hash := hex.EncodeToString(sum[:8])
	if s.Path != "/verify/assets/verge."+hash+".css" || s.ETag != `"`+hash+`"` ||
		s.ContentType != "text/css; charset=utf-8" {
		t.Errorf("the asset is %s, %s, %s", s.Path, s.ETag, s.ContentType)
	}
	doc, _ := render(t, views()["method"])
	links := find(doc, "link")
	if len(links) != 1 || attr(links[0], "rel") != "stylesheet" || attr(links[0], "href") != s.Path {
		t.Error("the page does not load the stylesheet, or loads more")
	}
}

func TestStyleLoadsNothing(t *testing.T) {
	for _, word := range []string{"url(", "@import", "@font-face", "expression("} {
		if strings.Contains(string(css), word) {
			t.Errorf("contract 22: the stylesheet has %q", word)
		}
	}
}

// Every class that a page uses has a rule, so that none is a typing error.
func TestClassesHaveRules(t *testing.T) {
	for name, v := range views() {
		doc, _ := render(t, v)
		for d := range doc.Descendants() {
			if d.Type != html.ElementNode {
				continue
			}
			for class := range strings.FieldsSeq(attr(d, "class")) {
				if !regexp.MustCompile(`\.` + class + `[\s.,:{]`).Match(css) {
					t.Errorf("%s: the stylesheet has no class %q", name, class)
				}
			}
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
		all, inside := strings.Count(string(css), word), strings.Count(welcome, word)
		if inside == 0 || all != inside {
			t.Errorf("WCAG 2.3.3: only %d of %d %q are inside prefers-reduced-motion: no-preference",
				inside, all, word)
		}
	}
}

func TestTargetsAreLargeEnough(t *testing.T) {
	for _, head := range []string{"\nbutton, .button ", "\n.back a "} {
		m := regexp.MustCompile(`min-height: ([0-9.]+)rem`).FindStringSubmatch(block(t, string(css), head))
		if m == nil {
			t.Fatalf("%q has no min-height", head)
		}
		if rem, err := strconv.ParseFloat(m[1], 64); err != nil || rem*16 < 44 {
			t.Errorf("%q is %v px high, less than 44", strings.TrimSpace(head), rem*16)
		}
	}
}

var property = regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`)

func colours(t *testing.T, head string) map[string]float64 {
	m := map[string]float64{}
	for _, p := range property.FindAllStringSubmatch(block(t, string(css), head), -1) {
		m[p[1]] = luminance(t, p[2])
	}
	return m
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

func TestContrast(t *testing.T) {
	if c := (luminance(t, "#ffffff") + .05) / (luminance(t, "#000000") + .05); math.Abs(c-21) > 1e-9 {
		t.Fatalf("white on black is %v, not 21: the formula is wrong", c)
	}
	const text, shape = 4.5, 3 // WCAG 1.4.3 and 1.4.11
	pairs := []struct {
		what, front, back string
		least             float64
	}{
		{"text on the card", "text", "card", text},
		{"text on the ground", "text", "ground", text},
		{"quiet text on the card", "muted", "card", text},
		{"quiet text on the ground", "muted", "ground", text},
		{"link on the ground", "accent", "ground", text},
		{"link under the pointer", "accent-strong", "ground", text},
		{"button", "on-button", "button", text},
		{"button under the pointer", "on-button", "button-strong", text},
		{"mark of the service", "mark", "ground", shape},
		{"quiet button under the pointer", "text", "accent-soft", text},
		{"number of a step, icon", "accent", "accent-soft", text},
		{"notice, icon of a stop", "stop", "stop-soft", text},
		{"test mode", "note", "note-soft", text},
		{"button against the card", "button-edge", "card", shape},
		{"edge of a quiet button", "control", "card", shape},
		{"edge of a quiet button under the pointer", "control", "accent-soft", shape},
		{"QR code", "ink", "paper", 7},
		{"number to compare", "accent", "accent-soft", text},
		{"words of a number to compare", "text", "accent-soft", text},
		{"focus on the card", "accent", "card", shape},
		{"focus on the ground", "accent", "ground", shape},
	}
	light, dark := colours(t, ":root"), colours(t, "@media (prefers-color-scheme: dark)")
	for theme, c := range map[string]map[string]float64{"light": light, "dark": dark} {
		for _, p := range pairs {
			front, ok1 := c[p.front]
			back, ok2 := c[p.back]
			if !ok1 || !ok2 {
				t.Fatalf("%s: --%s or --%s is not defined", theme, p.front, p.back)
			}
			if got := (max(front, back) + .05) / (min(front, back) + .05); got < p.least {
				t.Errorf("%s: %s has a contrast of %.2f, less than %v", theme, p.what, got, p.least)
			}
		}
	}

	paired := map[string]bool{"edge": true, "shadow": true} // mere decoration
	for _, p := range pairs {
		paired[p.front], paired[p.back] = true, true
	}
	for _, use := range regexp.MustCompile(`var\(--([a-z-]+)\)`).FindAllStringSubmatch(string(css), -1) {
		if !paired[use[1]] {
			t.Errorf("--%s is used, but the test does not compute its contrast", use[1])
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
