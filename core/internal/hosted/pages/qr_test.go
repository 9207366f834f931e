package pages

import (
	"image"
	"image/color"
	"strconv"
	"strings"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"golang.org/x/net/html"
)

// drawn draws a path of an SVG as a browser does, with so many pixels to a module. It knows M, m and h.
func drawn(t *testing.T, box, path string, scale int) image.Image {
	t.Helper()
	var side int
	if n, err := strconv.Atoi(box[strings.LastIndex(box, " ")+1:]); err == nil {
		side = n
	}
	m := image.NewGray(image.Rect(0, 0, side*scale, side*scale))
	for i := range m.Pix {
		m.Pix[i] = 0xff
	}
	x, y := 0, 0.0
	for path != "" {
		command, rest := path[0], path[1:]
		end := strings.IndexAny(rest, "Mmh")
		if end < 0 {
			end = len(rest)
		}
		first, second, _ := strings.Cut(rest[:end], " ")
		n, err := strconv.Atoi(first)
		if err != nil {
			t.Fatalf("a path with %q", path[:min(len(path), 20)])
		}
		switch command {
		case 'M':
			if x = n; second != "" {
				y, _ = strconv.ParseFloat(second, 64)
			}
		case 'm':
			x += n
		case 'h':
			for px := x * scale; px < (x+n)*scale; px++ {
				for py := int((y - .5) * float64(scale)); py < int((y+.5)*float64(scale)); py++ {
					m.SetGray(px, py, color.Gray{})
				}
			}
			x += n
		}
		path = rest[end:]
	}
	return m
}

// read decodes a picture with an independent decoder.
func read(t *testing.T, m image.Image) string {
	t.Helper()
	bitmap, err := gozxing.NewBinaryBitmapFromImage(m)
	if err != nil {
		t.Fatal(err)
	}
	result, err := qrcode.NewQRCodeReader().Decode(bitmap, nil)
	if err != nil {
		t.Fatalf("no decoder reads it: %v", err)
	}
	return result.GetText()
}

func TestCodesAreRead(t *testing.T) {
	long := "openid4vp://?client_id=redirect_uri%3Ahttps%3A%2F%2Fverify.verge.example%2Fverify%2Fbox%2F"
	for _, text := range []string{"a", "https://verify.verge.example/verify/phone/AAB6Zx5tq0Jm1s2v3w4x5y6z",
		strings.Repeat("x", longText), strings.Repeat("x", longText+1), long + strings.Repeat("aB3-_%7B", 60),
		long + strings.Repeat("aB3-_%7B", 140), strings.Repeat("z", 2953)} {
		code, err := newQR(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, drawn(t, code.box, code.path, 4)); got != text {
			t.Errorf("contract 34: a code of %d bytes reads %.60q, want %.60q", len(text), got, text)
		}
		t.Logf("%d bytes: viewBox %s, a path of %d bytes", len(text), code.box, len(code.path))
	}
	if _, err := newQR(strings.Repeat("z", 2954)); err == nil {
		t.Error("a text that no code holds is encoded")
	}
}

// Every page with a code has the same text in its attribute as in its picture.
func TestQR_Codes(t *testing.T) {
	found := 0
	for name, v := range views() {
		doc, _ := render(t, v)
		for _, svg := range find(doc, "svg") {
			if !has(svg, "data-qr") {
				continue
			}
			found++
			paths := find(svg, "path")
			if len(paths) != 1 {
				t.Fatalf("%s: a code of %d paths", name, len(paths))
			}
			got := read(t, drawn(t, viewBox(svg), attr(paths[0], "d"), 3))
			if got != v.Code || attr(svg, "data-qr") != v.Code {
				t.Errorf("contract 34: %s: the code reads %q and says %q, want %q",
					name, got, attr(svg, "data-qr"), v.Code)
			}
		}
	}
	if found == 0 {
		t.Error("no page has a code")
	}
}

// viewBox is the attribute, whose name the parser of HTML writes as SVG does.
func viewBox(n *html.Node) string { return attr(n, "viewBox") }

func BenchmarkQR(b *testing.B) {
	text := strings.Repeat("x", 900)
	for b.Loop() {
		if _, err := newQR(text); err != nil {
			b.Fatal(err)
		}
	}
}
