package brand

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
)

// Colour is an opaque sRGB colour, 0xRRGGBB.
type Colour uint32

// ParseColour reads #rrggbb, in any case.
func ParseColour(text string) (Colour, bool) {
	digits, ok := strings.CutPrefix(text, "#")
	n, err := strconv.ParseUint(digits, 16, 32)
	return Colour(n), ok && err == nil && len(digits) == 6
}

// String returns c as #rrggbb.
func (c Colour) String() string { return fmt.Sprintf("#%06x", uint32(c)) }

const (
	black Colour = 0x000000
	white Colour = 0xffffff
)

// mix returns the colour that is n/256 of the way from c to other.
func (c Colour) mix(other Colour, n int) (mixed Colour) {
	for shift := 0; shift < 24; shift += 8 {
		from, to := int(c>>shift&0xff), int(other>>shift&0xff)
		mixed |= Colour(from+(to-from)*n/256) << shift
	}
	return mixed
}

// linear returns the light of each value of a channel, in millionths. Integers make the palette the same on
// every processor and in the guest.
var linear = sync.OnceValue(func() (table [256]int) {
	for n := range table {
		v := float64(n) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		table[n] = int(v*1e6 + 0.5)
	}
	return table
})

// luminance returns WCAG's relative luminance of c, in millionths.
func (c Colour) luminance() int {
	light := linear()
	return (2126*light[c>>16&0xff] + 7152*light[c>>8&0xff] + 722*light[c&0xff]) / 10000
}

// contrast returns WCAG's contrast of c and other in hundredths, from 100 to 2100.
func (c Colour) contrast(other Colour) int {
	a, b := c.luminance()+50_000, other.luminance()+50_000
	return 100 * max(a, b) / min(a, b)
}

// The least contrasts in hundredths: WCAG 1.4.3 for text, 1.4.11 for shapes, and a margin for rounding.
const (
	textContrast  = 455
	shapeContrast = 305
)

// until returns the first colour on the way from c to black or white that has the contrast with every ground.
// The way to white leads by the brightest colour of the same hue, since a mere mixture would be grey.
func (c Colour) until(other Colour, least int, grounds ...Colour) Colour {
	stops := []Colour{c, other}
	if other == white {
		stops = []Colour{c, c.brightest(), white}
	}
	for n := range stops[1:] {
		for share := 0; share < 256; share += 4 {
			if mixed := stops[n].mix(stops[n+1], share); mixed.stands(least, grounds...) {
				return mixed
			}
		}
	}
	return other
}

// brightest returns the colour with the proportions of c whose largest channel is full.
func (c Colour) brightest() (full Colour) {
	most := max(c>>16, c>>8&0xff, c&0xff, 1)
	for shift := 0; shift < 24; shift += 8 {
		full |= (c >> shift & 0xff) * 255 / most << shift
	}
	return full
}

// stands reports whether c has at least that contrast with every ground.
func (c Colour) stands(least int, grounds ...Colour) bool {
	for _, g := range grounds {
		if c.contrast(g) < least {
			return false
		}
	}
	return true
}
