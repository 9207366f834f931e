package brand

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

func drawn(width, height int) image.Image {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for x := range width {
		for y := range height {
			m.Set(x, y, color.NRGBA{uint8(x * 7), uint8(y * 5), uint8(x * y), 255})
		}
	}
	return m
}

func pngOf(t *testing.T, width, height int) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, drawn(width, height)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func jpegOf(t *testing.T, width, height int) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := jpeg.Encode(&out, drawn(width, height), nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// chunk is a chunk of a PNG file. Its checksum does not matter here.
func chunk(kind string, data []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	return append(append(append(out, kind...), data...), 0, 0, 0, 0)
}

func ihdr(width, height uint32) []byte {
	data := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, width), height)
	return chunk("IHDR", append(data, 8, 6, 0, 0, 0))
}

func pngFile(chunks ...[]byte) []byte {
	return append([]byte("\x89PNG\r\n\x1a\n"), bytes.Join(chunks, nil)...)
}

// webpChunk is a chunk of a WebP file.
func webpChunk(kind string, data ...byte) []byte {
	out := binary.LittleEndian.AppendUint32([]byte(kind), uint32(len(data)))
	if out = append(out, data...); len(data)%2 == 1 {
		out = append(out, 0)
	}
	return out
}

func webpFile(chunks ...[]byte) []byte {
	body := append([]byte("WEBP"), bytes.Join(chunks, nil)...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

func lossy(width, height uint16) []byte {
	data := binary.LittleEndian.AppendUint16([]byte{0x10, 0, 0, 0x9d, 1, 0x2a}, width)
	return webpChunk("VP8 ", append(binary.LittleEndian.AppendUint16(data, height), 1, 2, 3)...)
}

func lossless(width, height uint32) []byte {
	return webpChunk("VP8L", append([]byte{0x2f}, binary.LittleEndian.AppendUint32(nil,
		width-1|(height-1)<<14)...)...)
}

func extended(flags, width, height byte) []byte {
	return webpChunk("VP8X", flags, 0, 0, 0, width-1, 0, 0, height-1, 0, 0)
}

func TestReadLogo_Accepts(t *testing.T) {
	spaced := append([]byte("\xff\xd8"), append([]byte("\xff\xff"), jpegOf(t, 20, 30)[3:]...)...)
	for name, c := range map[string]struct {
		file []byte
		want Logo
	}{
		"PNG":                   {pngOf(t, 120, 40), Logo{PNG, 120, 40}},
		"JPEG":                  {jpegOf(t, 64, 48), Logo{JPEG, 64, 48}},
		"JPEG with a fill byte": {spaced, Logo{JPEG, 20, 30}},
		"lossy WebP":            {webpFile(lossy(100, 50)), Logo{WebP, 100, 50}},
		"lossless WebP":         {webpFile(lossless(300, 200)), Logo{WebP, 300, 200}},
		"WebP with transparency": {
			webpFile(extended(0x10, 90, 60), webpChunk("ALPH", 1), lossy(90, 60)),
			Logo{WebP, 90, 60},
		},
		"the most pixels": {
			pngFile(ihdr(2048, 512), chunk("IDAT", nil), chunk("IEND", nil)),
			Logo{PNG, 2048, 512},
		},
		"the least pixels, square": {pngOf(t, 16, 16), Logo{PNG, 16, 16}},
	} {
		if got, problem := ReadLogo(c.file); got != c.want || problem != "" {
			t.Errorf("contract 52: %s: %+v, %q", name, got, problem)
		}
	}
}

func TestReadLogo_Rejects(t *testing.T) {
	idat, iend := chunk("IDAT", []byte{1}), chunk("IEND", nil)
	var animatedGIF bytes.Buffer
	if err := gif.Encode(&animatedGIF, drawn(20, 20), nil); err != nil {
		t.Fatal(err)
	}
	progressive := jpegOf(t, 20, 20)
	lossyJPEG := bytes.Replace(progressive, []byte("\xff\xc0"), []byte("\xff\xc3"), 1)
	for name, c := range map[string]struct {
		file    []byte
		problem string
	}{
		"nothing": {nil, "PNG, JPEG and WebP"},
		"SVG": {
			[]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`),
			"PNG, JPEG and WebP",
		},
		"HTML":                 {[]byte(`<script>alert(1)</script>`), "PNG, JPEG and WebP"},
		"GIF":                  {animatedGIF.Bytes(), "PNG, JPEG and WebP"},
		"too many bytes":       {make([]byte, MaxLogo+1), "64 KiB"},
		"PNG, too wide":        {pngFile(ihdr(2049, 16), idat, iend), "too many pixels"},
		"PNG, too many pixels": {pngFile(ihdr(1025, 1024), idat, iend), "too many pixels"},
		"PNG, a bomb":          {pngFile(ihdr(1<<31, 1<<31), idat, iend), "too many pixels"},
		"PNG, too small":       {pngFile(ihdr(15, 100), idat, iend), "smaller"},
		"PNG without size":     {pngFile(ihdr(0, 0), idat, iend), "smaller"},
		"PNG, animated": {
			pngFile(ihdr(20, 20), chunk("acTL", make([]byte, 8)), idat, iend),
			"Animated",
		},
		"PNG, animated at its end": {pngFile(ihdr(20, 20), idat, chunk("acTL", nil), iend), "Animated"},
		"PNG with a page behind":   {append(pngOf(t, 20, 20), "<script>"...), "data after"},
		"PNG without pixels":       {pngFile(ihdr(20, 20), iend), "damaged"},
		"PNG without header":       {pngFile(idat, iend), "damaged"},
		"PNG with two headers":     {pngFile(ihdr(20, 20), ihdr(20, 20), idat, iend), "damaged"},
		"PNG, cut":                 {pngOf(t, 20, 20)[:40], "damaged"},
		"PNG, its chunk too long": {
			pngFile(ihdr(20, 20), []byte("\xff\xff\xff\xffIDAT\x00\x00\x00\x00")),
			"damaged",
		},
		"JPEG, cut":               {jpegOf(t, 20, 20)[:200], "damaged"},
		"JPEG without its end":    {jpegOf(t, 20, 20)[:len(jpegOf(t, 20, 20))-2], "damaged"},
		"JPEG with a page behind": {append(jpegOf(t, 20, 20), "<script>"...), "data after"},
		"JPEG without pixels":     {[]byte("\xff\xd8\xff\xd9"), "damaged"},
		"JPEG, lossless":          {lossyJPEG, "damaged"},
		"JPEG, too wide":          {jpegOf(t, 2049, 16), "too many pixels"},
		"WebP, animated":          {webpFile(extended(2, 90, 60), lossy(90, 60)), "Animated"},
		"WebP with frames": {
			webpFile(extended(0, 90, 60), webpChunk("ANMF", make([]byte, 24)...)),
			"Animated",
		},
		"WebP with a page behind": {append(webpFile(lossy(90, 60)), "<script>"...), "data after"},
		"WebP, cut":               {webpFile(lossy(90, 60))[:25], "damaged"},
		"WebP with two images":    {webpFile(lossy(90, 60), lossy(90, 60)), "damaged"},
		"WebP of two sizes":       {webpFile(extended(0, 90, 60), lossy(900, 60)), "damaged"},
		"WebP without pixels":     {webpFile(extended(0, 90, 60)), "damaged"},
		"WebP, too large":         {webpFile(lossless(16384, 16384)), "too many pixels"},
	} {
		if got, problem := ReadLogo(c.file); !strings.Contains(problem, c.problem) || got != (Logo{}) {
			t.Errorf("contract 52: %s: %+v, %q", name, got, problem)
		}
	}
}

// FuzzReadLogo: Go's decoders agree with the size of every file that is accepted, if they can read it.
func FuzzReadLogo(f *testing.F) {
	var p, j bytes.Buffer
	_ = png.Encode(&p, drawn(17, 19))
	_ = jpeg.Encode(&j, drawn(17, 19), nil)
	f.Add(p.Bytes())
	f.Add(j.Bytes())
	f.Add(webpFile(extended(0x10, 90, 60), lossy(90, 60)))
	f.Add(webpFile(lossless(90, 60)))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, problem := ReadLogo(b)
		if problem != "" {
			return
		}
		if l.Format.ContentType() == "" || min(l.Width, l.Height) < minSide || l.Width*l.Height > maxPixels {
			t.Fatalf("accepted %+v", l)
		}
		config, _, err := image.DecodeConfig(bytes.NewReader(b))
		if err == nil && (config.Width != l.Width || config.Height != l.Height) {
			t.Fatalf("the size is %+v, not %+v", config, l)
		}
	})
}
