package brand

// A Palette is the colours of a page that follow from an accent. The fields are properties of verge.css.
type Palette struct {
	Accent       Colour // text, links, icons and the focus ring
	AccentStrong Colour // a link under the pointer
	AccentSoft   Colour // the ground of icons and numbers, and of a quiet button under the pointer
	Button       Colour // the ground of the first button
	ButtonStrong Colour // the same under the pointer
	ButtonEdge   Colour // its border
	OnButton     Colour // its text
}

// properties are the names of the colours, in the order of the stylesheet.
func (p Palette) properties() []property {
	return []property{{"accent", p.Accent}, {"accent-strong", p.AccentStrong}, {"accent-soft", p.AccentSoft},
		{"button", p.Button}, {"button-strong", p.ButtonStrong}, {"button-edge", p.ButtonEdge},
		{"on-button", p.OnButton}}
}

type property struct {
	name  string
	value Colour
}

// scheme has the colours of verge.css that do not depend on the accent, and on which it must be legible. A
// test of package pages compares them with the stylesheet.
type scheme struct {
	card, ground, text, muted, control, edge Colour

	away   Colour // from the card: towards this colour contrast grows
	soft   int    // the share of the accent in AccentSoft, of 256
	accent int    // the least contrast of Accent, in hundredths
	button int    // the least contrast of Button and card, in hundredths
}

func (s *scheme) properties() []property {
	return []property{{"card", s.card}, {"ground", s.ground}, {"text", s.text}, {"muted", s.muted},
		{"control", s.control}, {"edge", s.edge}}
}

var schemes = map[bool]*scheme{
	false: {card: 0xffffff, ground: 0xf4f3ee, text: 0x1c2421, muted: 0x57625d, control: 0x76827c,
		edge: 0xdfddd3, away: black, soft: 30, accent: textContrast, button: 130},
	true: {card: 0x191f1c, ground: 0x101412, text: 0xebefec, muted: 0xa5b0aa, control: 0x7a8780,
		edge: 0x2c3531, away: white, soft: 44, accent: 600, button: shapeContrast},
}

// Palette computes the colours of a page, in light or in dark. Text has a contrast of at least 4.5:1 with
// each ground that it appears on, and icons, borders and the focus ring 3:1.
//
// The button keeps the accent itself where that can be seen on the card. In light a pale one gets a darker
// border, and in dark a dark accent is lightened, because a dark button with a border would look like a
// second choice.
func (c Colour) Palette(dark bool) Palette {
	s := schemes[dark]
	p := Palette{AccentSoft: s.card}
	for share := s.soft; share > 0; share -= 2 {
		soft := s.card.mix(c, share)
		if s.text.stands(textContrast, soft) && s.muted.stands(textContrast, soft) &&
			s.control.stands(shapeContrast, soft) {
			p.AccentSoft = soft
			break
		}
	}
	p.Accent = c.until(s.away, s.accent, s.card, s.ground, p.AccentSoft)
	p.AccentStrong = p.Accent.mix(s.away, 72)
	p.Button = c.until(s.away, s.button, s.card)
	p.ButtonEdge = p.Button.until(s.away, shapeContrast, s.card)
	if p.OnButton = white; !white.stands(textContrast, p.Button) {
		p.OnButton = p.Button.until(black, 700, p.Button)
	}
	p.ButtonStrong = p.Button.mix(black, 36)
	if !p.OnButton.stands(textContrast, p.ButtonStrong) || !p.ButtonStrong.stands(108, p.Button) {
		p.ButtonStrong = p.Button.mix(white, 48)
	}
	return p
}

// Sheet returns the stylesheet that gives every page the colours of an accent. The browser loads it after
// verge.css.
func (c Colour) Sheet() []byte {
	out := rule(nil, ":root", c.Palette(false).properties())
	out = append(out, "@media (prefers-color-scheme: dark) {\n"...)
	out = rule(out, ":root", c.Palette(true).properties())
	return append(out, "}\n"...)
}

// Preview returns the stylesheet of a preview, which shows both schemes on one page: elements with
// data-scheme have the colours.
func (c Colour) Preview() []byte {
	out := rule(nil, `[data-scheme="light"]`, schemes[false].properties(), c.Palette(false).properties())
	return rule(out, `[data-scheme="dark"]`, schemes[true].properties(), c.Palette(true).properties())
}

// rule appends a rule to a stylesheet.
func rule(out []byte, selector string, properties ...[]property) []byte {
	out = append(append(out, selector...), " {\n"...)
	for _, list := range properties {
		for _, p := range list {
			out = append(out, "\t--"+p.name+": "+p.value.String()+";\n"...)
		}
	}
	return append(out, "}\n"...)
}
