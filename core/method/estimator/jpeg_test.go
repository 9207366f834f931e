package estimator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/steperror"
	"github.com/verge-id/verge/core/method"
)

// seg is a marker with its segment.
func seg(marker byte, content ...byte) string {
	return string(binary.BigEndian.AppendUint16([]byte{0xff, marker}, uint16(2+len(content)))) +
		string(content)
}

// frame is a frame header with the given marker, size and number of components.
func frame(marker byte, width, height uint16, components int) string {
	header := binary.BigEndian.AppendUint16([]byte{8}, height)
	header = append(binary.BigEndian.AppendUint16(header, width), byte(components))
	for n := range components {
		header = append(header, byte(n+1), 0x11, 0)
	}
	return seg(marker, header...)
}

const (
	start = "\xff\xd8"
	end   = "\xff\xd9"
	// A scan of three components with some coded data: an escaped 0xff and a restart.
	scan = "\xff\xda\x00\x0c\x03\x01\x00\x02\x00\x03\x00\x00\x3f\x00" + "data\xff\x00more\xff\xd0data"
)

// picture is the skeleton of a good JPEG.
func picture() string { return start + frame(sof0, 640, 480, 3) + scan + end }

func encoded(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPicturesThatAreTaken(t *testing.T) {
	app := seg(0xe1, []byte("Exif\x00\x00"+start+frame(sof0, 160, 120, 3)+scan+end)...)
	for _, c := range []struct{ rule, picture string }{
		{"contract 37: a baseline JPEG", picture()},
		{"contract 37: a progressive JPEG with ten scans",
			start + frame(sof2, 640, 480, 3) + strings.Repeat(seg(dht)+scan, 10) + end},
		{"grey", start + frame(sof0, 640, 480, 1) + seg(sos, 1, 1, 0, 0, 63, 0) + "data" + end},
		{"the least size", start + frame(sof0, 256, 256, 3) + scan + end},
		{"the largest size", start + frame(sof0, 4096, 4096, 3) + scan + end},
		{"a thumbnail inside a segment of a camera", start + app + frame(sof0, 640, 480, 3) + scan + end},
		{"tables, a comment and a restart interval", start + seg(com, 'x') + seg(dqt) + seg(dri, 0, 8) +
			frame(sof0, 640, 480, 3) + seg(dht) + scan + end},
		{"bytes that fill before a marker", start + "\xff\xff" + frame(sof0, 640, 480, 3) + scan +
			"\xff\xff" + end},
		{"a few bytes behind the end", picture() + "\x00\x00"},
		{"a film behind the end", picture() + "\x00\x00\x00\x18ftypmp42" + strings.Repeat("z", 100)},
		{"the standard library's, in colour",
			string(encoded(t, image.NewYCbCr(image.Rect(0, 0, 300, 400), 0)))},
		{"the standard library's, in grey", string(encoded(t, image.NewGray(image.Rect(0, 0, 256, 4096))))},
		{"1 MiB", start + strings.Repeat(seg(com, make([]byte, 65533)...), 15) + frame(sof0, 640, 480, 3) +
			scan + end},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if _, err := cleanJPEG([]byte(c.picture)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The rows of the list of attacks on the camera: 400, and the estimator is not asked.
func TestPicturesThatAreRejected(t *testing.T) {
	var asGIF, asPNG bytes.Buffer
	palette := image.NewPaletted(image.Rect(0, 0, 300, 300), color.Palette{color.Black, color.White})
	if err := errors.Join(gif.Encode(&asGIF, palette, nil), png.Encode(&asPNG, palette)); err != nil {
		t.Fatal(err)
	}
	withFrame := func(f string) string { return start + f + scan + end }
	for _, c := range []struct{ rule, picture, problem string }{
		{"empty", "", "does not begin as a JPEG"},
		{"one byte", "\xff", "does not begin as a JPEG"},
		{"a GIF", asGIF.String(), "does not begin as a JPEG"},
		{"a PNG", asPNG.String(), "does not begin as a JPEG"},
		{"an SVG", `<svg xmlns="http://www.w3.org/2000/svg"/>`, "does not begin as a JPEG"},
		{"HTML with a JPEG's name", "<!doctype html><script>alert(1)</script>", "does not begin as a JPEG"},
		{"a polyglot: a GIF's header before the JPEG", "GIF89a" + picture(), "does not begin as a JPEG"},
		{"a polyglot: HTML between start and first segment", start + "<script>" + picture(),
			"between its segments"},
		{"a polyglot: a script in the coded data's end",
			start + frame(sof0, 640, 480, 3) + scan + "\xff\xd8" + picture()[2:],
			"a marker that no"},
		{"a second start", start + picture(), "a marker that no"},
		{"a bomb: 65,535 x 65,535", withFrame(frame(sof0, 65535, 65535, 3)), "too many pixels"},
		{"a bomb: 4,097 wide", withFrame(frame(sof0, 4097, 300, 3)), "too many pixels"},
		{"a bomb: 4,097 high", withFrame(frame(sof0, 300, 4097, 3)), "too many pixels"},
		{"0 x 0", withFrame(frame(sof0, 0, 0, 3)), "too few pixels"},
		{"a height that comes later", withFrame(frame(sof0, 640, 0, 3)), "too few pixels"},
		{"255 wide", withFrame(frame(sof0, 255, 300, 3)), "too few pixels"},
		{"a cut frame header", start + "\xff\xc0\x00\x11\x08\x01", "cut in a segment"},
		{"a frame header for fewer components", withFrame(seg(sof0, 8, 2, 0, 2, 0, 3, 1, 0x11, 0)),
			"frame header is cut"},
		{"a frame header of five bytes", withFrame(seg(sof0, 8, 2, 0, 2, 0)), "frame header is cut"},
		{"a frame header that is too long", withFrame(seg(sof0, 8, 2, 0, 2, 0, 1, 1, 0x11, 0, 0)),
			"cut or too long"},
		{"no frame", start + end, "no scan"},
		{"a scan before the frame", start + scan + frame(sof0, 640, 480, 3) + end, "scan before its frame"},
		{"no scan", start + frame(sof0, 640, 480, 3) + end, "no scan"},
		{"two frames", start + frame(sof0, 640, 480, 3) + frame(sof0, 4096, 4096, 3) + scan + end,
			"second frame"},
		{"two frames, the larger behind the scan", start + frame(sof0, 640, 480, 3) + scan + frame(sof2, 4096,
			4096, 3) +
			scan + end, "second frame"},
		{"12 bits", withFrame(seg(sof0, 12, 2, 0, 2, 0, 1, 1, 0x11, 0)), "8 bits"},
		{"four colours", withFrame(frame(sof0, 640, 480, 4)), "neither grey"},
		{"two components", withFrame(frame(sof0, 640, 480, 2)), "neither grey"},
		{"255 components", withFrame(frame(sof0, 640, 480, 255)), "neither grey"},
		{"no component", withFrame(frame(sof0, 640, 480, 0)), "neither grey"},
		{"a sampling factor of 0", withFrame(seg(sof0, 8, 2, 0, 2, 0, 1, 1, 0x10, 0)), "sampling"},
		{"a sampling factor of 5", withFrame(seg(sof0, 8, 2, 0, 2, 0, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x51, 0)),
			"sampling"},
		{"arithmetic coding", withFrame(frame(0xc9, 640, 480, 3)), "a marker that no"},
		{"lossless", withFrame(frame(0xc3, 640, 480, 3)), "a marker that no"},
		{"a restart outside of a scan", start + "\xff\xd0" + picture()[2:], "a marker that no"},
		{"a scan of more components than the frame", start + frame(sof0, 640, 480, 1) + scan + end,
			"scan header"},
		{"a scan without components", start + frame(sof0, 640, 480, 3) + seg(sos, 0, 0, 63, 0) + end,
			"scan header"},
		{"an empty scan header", start + frame(sof0, 640, 480, 3) + seg(sos) + end, "scan header"},
		{"10,000 segments", start + strings.Repeat(seg(com), 10000) + picture()[2:], "too many segments"},
		{"33 scans", start + frame(sof2, 640, 480, 3) + strings.Repeat(scan, 33) + end, "too many scans"},
		{"a segment of length 0", start + "\xff\xe0\x00\x00" + picture()[2:], "cut in a segment"},
		{"a segment that is longer than the file", start + "\xff\xe0\xff\xff" + picture()[2:],
			"cut in a segment"},
		{"cut behind the start", start, "is cut"},
		{"cut in a marker", start + "\xff", "is cut"},
		{"cut in a length", start + "\xff\xe0\x00", "cut in a segment"},
		{"cut in the scan", start + frame(sof0, 640, 480, 3) + scan, "cut in a scan"},
		{"cut in the end", start + frame(sof0, 640, 480, 3) + scan + "\xff", "cut in a scan"},
		{"1 MiB and one byte", start + strings.Repeat("\xff", method.MaxFile-1), "too large"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := cleanJPEG([]byte(c.picture))
			if !errors.As(err, new(*steperror.File)) || !errors.Is(err, method.ErrStep) {
				t.Fatalf("got %v, want a steperror.File", err)
			}
			if !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %q, want it to say %q", err, c.problem)
			}
		})
	}
}

// Each rejection names the rule that the file breaks, and no other one.
func TestRejectedPicture_Rule(t *testing.T) {
	withFrame := func(f string) string { return start + f + scan + end }
	for rule, pictures := range map[steperror.Rule][]string{
		steperror.Large: {picture() + strings.Repeat("z", method.MaxFile)},
		steperror.Small: {withFrame(frame(sof0, 352, 255, 3))},
		steperror.Wide:  {withFrame(frame(sof0, 352, 4097, 3))},
		steperror.Type: {"GIF89a", "", withFrame(frame(sof0, 640, 480, 4)),
			withFrame(frame(0xc9, 640, 480, 3)), withFrame(seg(sof0, 12, 2, 0, 2, 0, 1, 1, 0x11, 0))},
		steperror.Damaged: {start + end, picture()[:40], start + "<script>" + picture()},
	} {
		for _, p := range pictures {
			_, err := cleanJPEG([]byte(p))
			var file *steperror.File
			if !errors.As(err, &file) || file.Rule != rule {
				t.Errorf("contract 37: %.60q: %v, want the rule %s", p, err, rule)
			}
		}
	}
}

// exifOf is an Exif segment with a directory of the given entries, each of 12 bytes, in that order of bytes.
func exifOf(order string, entries ...string) string {
	tiff := "MM\x00\x2a\x00\x00\x00\x08\x00" + string(byte(len(entries)))
	if order == "II" {
		tiff = "II\x2a\x00\x08\x00\x00\x00" + string(byte(len(entries))) + "\x00"
	}
	return seg(app1, []byte(exifHead+tiff+strings.Join(entries, "")+"\x00\x00\x00\x00CANARY")...)
}

// The parts of a picture that leave the service: what a decoder needs, and which side is up.
func TestPicture_WithoutMetadata(t *testing.T) {
	const (
		turned   = "\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00" // orientation 6
		upright  = "\x01\x12\x00\x03\x00\x00\x00\x01\x00\x01\x00\x00"
		turnedII = "\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00"
		place    = "\x88\x25\x00\x04\x00\x00\x00\x01\x00\x00\x00\x40" // GPS
		camera   = "\x01\x0f\x00\x02\x00\x00\x00\x06\x00\x00\x00\x40"
	)
	body := frame(sof0, 640, 480, 3) + scan
	side := func(n byte) string { return seg(app1, []byte(exif+string(n)+exifEnd)...) }
	for _, c := range []struct{ rule, in, out string }{
		{"nothing to remove", body, body},
		{"Exif with a place and a camera; the orientation stays", exifOf("MM", camera, turned, place) + body,
			side(6) + body},
		{"Exif in the other order of bytes", exifOf("II", turnedII) + body, side(6) + body},
		{"an upright picture needs no Exif", exifOf("MM", upright, place) + body, body},
		{"Exif without an orientation", exifOf("MM", place) + body, body},
		{"the first Exif counts", exifOf("MM", place) + exifOf("MM", turned) + body, body},
		{"an orientation that does not exist", exifOf("MM", strings.Replace(turned, "\x06", "\x09", 1)) +
			body, body},
		{"an orientation of another type", exifOf("MM", strings.Replace(turned, "\x03", "\x02", 1)) + body,
			body},
		{"two orientations in one entry", exifOf("MM", strings.Replace(turned, "\x01\x00\x06",
			"\x02\x00\x06", 1)) + body, body},
		{"a directory outside of its segment",
			seg(app1, []byte(exifHead+"MM\x00\x2a\xff\xff\xff\xff")...) + body, body},
		{"a directory that is cut",
			seg(app1, []byte(exifHead+"MM\x00\x2a\x00\x00\x00\x08\x00\x09CANARY")...) + body, body},
		{"Exif of no known order", seg(app1, []byte(exifHead+"XX\x00\x2a\x00\x00\x00\x08\x00\x00")...) + body,
			body},
		{"XMP", seg(app1, []byte("http://ns.adobe.com/xap/1.0/\x00<CANARY/>")...) + body, body},
		{"a colour profile", seg(0xe2, []byte("ICC_PROFILE\x00\x01\x01CANARY")...) + body, body},
		{"the index of further pictures", seg(0xe2, []byte("MPF\x00CANARY")...) + body, body},
		{"Photoshop and all other applications", seg(0xed, []byte("Photoshop 3.0\x00CANARY")...) +
			seg(0xe3, []byte("CANARY")...) + seg(0xef, []byte("CANARY")...) + body, body},
		{"a comment", seg(com, []byte("CANARY")...) + body, body},
		{"JFIF with a preview and a resolution",
			seg(app0, []byte("JFIF\x00\x01\x02\x01\x00\x48\x00\x48\x01\x01CAN")...) + body,
			seg(app0, []byte(jfif)...) + body},
		{"JFIF's second segment, with a preview", seg(app0, []byte(jfif)...) +
			seg(app0, []byte("JFXX\x00\x10CANARY")...) + body, seg(app0, []byte(jfif)...) + body},
		{"Adobe: the components are red, green and blue",
			seg(app14, []byte("Adobe\x00\x65\x80\x00\x00\x00\x00CANARY")...) + body,
			seg(app14, []byte(adobe+"\x00")...) + body},
		{"Adobe: the components are not", seg(app14, []byte("Adobe\x00\x65\x80\x00\x00\x00\x01")...) + body,
			seg(app14, []byte(adobe+"\x01")...) + body},
		{"segments between the scans", frame(sof2, 640, 480, 3) + scan + seg(com, []byte("CANARY")...) +
			exifOf("MM", camera) + seg(dht, 1) + scan, frame(sof2, 640, 480, 3) + scan + seg(dht, 1) + scan},
		{"bytes that fill before a marker", "\xff\xff" + body + "\xff\xff\xff", body},
	} {
		t.Run("contract 37: "+c.rule, func(t *testing.T) {
			for _, behind := range []string{"", "\x00", "CANARY", picture()} {
				got, err := cleanJPEG([]byte(start + c.in + end + behind))
				if want := start + c.out + end; err != nil || string(got) != want {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
			}
		})
	}
}

// A decoder sees the same picture.
func TestPicture_SamePixels(t *testing.T) {
	img := image.NewYCbCr(image.Rect(0, 0, 300, 260), image.YCbCrSubsampleRatio420)
	for n := range img.Y {
		img.Y[n] = byte(n * n)
	}
	whole := encoded(t, img)
	clean, err := cleanJPEG([]byte(start + exifOf("MM") + seg(com, 'x') + string(whole[2:]) + "behind"))
	if err != nil || !bytes.Equal(clean, whole) {
		t.Errorf("%d bytes are %d without metadata: %v", len(whole), len(clean), err)
	}
}

// A picture that is truncated anywhere is rejected.
func TestCleanJPEG_Truncated(t *testing.T) {
	whole := encoded(t, image.NewYCbCr(image.Rect(0, 0, 256, 256), image.YCbCrSubsampleRatio420))
	if _, err := cleanJPEG(whole); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if _, err := cleanJPEG(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a picture", n, len(whole))
		}
	}
}

// FuzzCleanJPEG checks that an accepted picture results in a JPEG that is no longer and has no further parts
// to remove. If the standard library can read a picture, it reads the same frame from the result.
func FuzzCleanJPEG(f *testing.F) {
	f.Add([]byte(picture()))
	f.Add([]byte(start + seg(com, 'x') + frame(sof2, 300, 300, 3) + seg(dht) + scan + scan + end + "\x00"))
	f.Add([]byte(start + frame(sof0, 640, 480, 1) + seg(sos, 1, 1, 0, 0, 63, 0) + "data" + end))
	f.Add([]byte("GIF89a" + picture()))
	f.Add([]byte(start + seg(app0, []byte(jfif)...) +
		exifOf("II", "\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00") +
		seg(app14, []byte(adobe+"\x00")...) + picture()[2:] + picture()))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		clean, err := cleanJPEG(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the picture was changed in place")
		}
		if err != nil {
			return
		}
		if len(clean) > len(b) || len(b) > method.MaxFile || !bytes.HasPrefix(clean, []byte(start)) ||
			!bytes.HasSuffix(clean, []byte(end)) {
			t.Fatalf("%q comes out as %q", b, clean)
		}
		if again, err := cleanJPEG(clean); err != nil || !bytes.Equal(again, clean) {
			t.Fatalf("%q comes out as %q, and that as %q: %v", b, clean, again, err)
		}
		c, err := jpeg.DecodeConfig(bytes.NewReader(b))
		if err != nil {
			return
		}
		if min(c.Width, c.Height) < minSide || max(c.Width, c.Height) > maxSide {
			t.Fatalf("%q is taken, of %d x %d", b, c.Width, c.Height)
		}
		if same, err := jpeg.DecodeConfig(bytes.NewReader(clean)); err != nil || same.Width != c.Width ||
			same.Height != c.Height {
			t.Fatalf("%q comes out as %q: %+v, %v", b, clean, same, err)
		}
	})
}

func BenchmarkCleanJPEG(b *testing.B) {
	coded := strings.Repeat("0123456789abcdef\xff\x00", 300<<10/18)
	picture := []byte(start + frame(sof0, 1280, 960, 3) + scan + coded + end)
	b.SetBytes(int64(len(picture)))
	for b.Loop() {
		if _, err := cleanJPEG(picture); err != nil {
			b.Fatal(err)
		}
	}
}
