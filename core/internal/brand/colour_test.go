package brand

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestParseColour(t *testing.T) {
	for text, want := range map[string]string{"#0b6a5a": "#0b6a5a", "#FFCC00": "#ffcc00"} {
		if c, ok := ParseColour(text); !ok || c.String() != want {
			t.Errorf("%s is %s, %v", text, c, ok)
		}
	}
	for _, text := range []string{"", "#", "0b6a5a", "#0b6a5", "#0b6a5a0", "#0b6a5g", "#+b6a5a", "#0b6a5 ",
		"red",
		"#0b6a5a;", "rgb(0,0,0)", "#0x1234", "#1_2345"} {
		if c, ok := ParseColour(text); ok {
			t.Errorf("%q is the colour %s", text, c)
		}
	}
}

// exact is WCAG's contrast, computed apart from the code.
func exact(a, b Colour) float64 {
	luminance := func(c Colour) float64 {
		channel := func(shift int) float64 {
			v := float64(c>>shift&0xff) / 255
			if v <= 0.04045 {
				return v / 12.92
			}
			return math.Pow((v+0.055)/1.055, 2.4)
		}
		return 0.2126*channel(16) + 0.7152*channel(8) + 0.0722*channel(0)
	}
	x, y := luminance(a)+.05, luminance(b)+.05
	return max(x, y) / min(x, y)
}

// accents are every corner and grey of the colours, and random ones.
func accents() []Colour {
	var all []Colour
	for r := 0; r <= 256; r += 64 {
		for g := 0; g <= 256; g += 64 {
			for b := 0; b <= 256; b += 64 {
				all = append(all, Colour(min(r, 255)<<16|min(g, 255)<<8|min(b, 255)))
			}
		}
	}
	for n := range Colour(256) {
		all = append(all, n<<16|n<<8|n)
	}
	random := rand.New(rand.NewPCG(52, 52))
	for range 2000 {
		all = append(all, Colour(random.IntN(1<<24)))
	}
	return all
}

func TestPalette_Contrast(t *testing.T) {
	const text, shape = 4.5, 3.0 // WCAG 1.4.3 and 1.4.11
	for _, accent := range accents() {
		for dark, s := range schemes {
			p := accent.Palette(dark)
			for _, pair := range []struct {
				name        string
				front, back Colour
				least       float64
			}{
				{"contract 52: a link on the card", p.Accent, s.card, text},
				{"contract 52: a link on the ground", p.Accent, s.ground, text},
				{"contract 52: a number, an icon", p.Accent, p.AccentSoft, text},
				{"contract 52: a link under the pointer, on the card", p.AccentStrong, s.card, text},
				{"contract 52: a link under the pointer, on the ground", p.AccentStrong, s.ground, text},
				{"contract 52: the button", p.OnButton, p.Button, text},
				{"contract 52: the button under the pointer", p.OnButton, p.ButtonStrong, text},
				{"contract 52: the border of the button", p.ButtonEdge, s.card, shape},
				{"contract 52: text on the soft ground", s.text, p.AccentSoft, text},
				{"contract 52: quiet text on the soft ground", s.muted, p.AccentSoft, text},
				{"contract 52: a border on the soft ground", s.control, p.AccentSoft, shape},
			} {
				if got := exact(pair.front, pair.back); got < pair.least {
					t.Fatalf(
						"%s: accent %s, dark %v: %s on %s has %.2f, less than %v",
						pair.name,
						accent,
						dark,
						pair.front,
						pair.back,
						got,
						pair.least,
					)
				}
			}
			if p.ButtonStrong == p.Button {
				t.Fatalf("accent %s, dark %v: the button is unchanged under the pointer", accent, dark)
			}
		}
	}
}

func TestPalette_KeepsTheAccent(t *testing.T) {
	for _, c := range []struct {
		name   string
		accent Colour
		dark   bool
	}{
		{"a dark red in light", 0x9b2335, false}, {"a yellow in light", 0xe5b800, false},
		{"a black in light", 0x000000, false}, {"a yellow in dark", 0xe5b800, true},
	} {
		if p := c.accent.Palette(c.dark); p.Button != c.accent {
			t.Errorf("%s: the button is %s", c.name, p.Button)
		}
	}
}

func TestSheet(t *testing.T) {
	sheet := string(Colour(0x0b6a5a).Sheet())
	if !strings.HasPrefix(sheet, ":root {\n\t--accent: #0b6a5a;\n") ||
		!strings.Contains(sheet, "}\n@media (prefers-color-scheme: dark) {\n:root {\n\t--accent: #") ||
		strings.Count(sheet, "{") != 3 || strings.Count(sheet, "}") != 3 {
		t.Errorf("the stylesheet is %s", sheet)
	}
	preview := string(Colour(0x0b6a5a).Preview())
	if strings.Contains(preview, ":root") || strings.Count(preview, "--card: ") != 2 {
		t.Errorf("the stylesheet of the preview is %s", preview)
	}
}
