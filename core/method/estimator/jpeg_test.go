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
		{"a few bytes behind the end", picture() + strings.Repeat("\x00", maxPadding)},
		{"the standard library's, in colour",
			string(encoded(t, image.NewYCbCr(image.Rect(0, 0, 300, 400), 0)))},
		{"the standard library's, in grey", string(encoded(t, image.NewGray(image.Rect(0, 0, 256, 4096))))},
		{"1 MiB", start + strings.Repeat(seg(com, make([]byte, 65533)...), 15) + frame(sof0, 640, 480, 3) +
			scan + end},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if err := checkJPEG([]byte(c.picture)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The rows of the list of attacks on the camera: 400, and the estimator is not asked.
func TestPicturesThatAreRefused(t *testing.T) {
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
		{"a polyglot: an archive behind the end", picture() + "PK\x03\x04" + strings.Repeat("z", 100),
			"behind its end"},
		{"a polyglot: another JPEG behind the end", picture() + picture(), "behind its end"},
		{"a polyglot: a script in the coded data's end",
			start + frame(sof0, 640, 480, 3) + scan + "\xff\xd8" + picture()[2:],
			"a marker that no"},
		{"a second start", start + picture(), "a marker that no"},
		{"nine bytes behind the end", picture() + strings.Repeat("\x00", maxPadding+1), "behind its end"},
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
			err := checkJPEG([]byte(c.picture))
			if !errors.Is(err, method.ErrFile) || !errors.Is(err, method.ErrStep) {
				t.Fatalf("got %v, want a method.ErrFile", err)
			}
			if !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %q, want it to say %q", err, c.problem)
			}
		})
	}
}

// A picture that is cut anywhere is refused.
func TestCutPicturesAreRefused(t *testing.T) {
	whole := encoded(t, image.NewYCbCr(image.Rect(0, 0, 256, 256), image.YCbCrSubsampleRatio420))
	if err := checkJPEG(whole); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if checkJPEG(whole[:n]) == nil {
			t.Errorf("the first %d of %d bytes are taken for a picture", n, len(whole))
		}
	}
}

// FuzzCheckJPEG: what is taken begins and ends as a JPEG, and where the standard library can read its size,
// the size is within the limits.
func FuzzCheckJPEG(f *testing.F) {
	f.Add([]byte(picture()))
	f.Add([]byte(start + seg(com, 'x') + frame(sof2, 300, 300, 3) + seg(dht) + scan + scan + end + "\x00"))
	f.Add([]byte(start + frame(sof0, 640, 480, 1) + seg(sos, 1, 1, 0, 0, 63, 0) + "data" + end))
	f.Add([]byte("GIF89a" + picture()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if checkJPEG(b) != nil {
			return
		}
		if len(b) > method.MaxFile || !bytes.HasPrefix(b, []byte(start)) ||
			!bytes.Contains(b[max(0, len(b)-2-maxPadding):], []byte(end)) {
			t.Fatalf("%q is taken", b)
		}
		c, err := jpeg.DecodeConfig(bytes.NewReader(b))
		if err == nil && (min(c.Width, c.Height) < minSide || max(c.Width, c.Height) > maxSide) {
			t.Fatalf("%q is taken, of %d x %d", b, c.Width, c.Height)
		}
	})
}

func BenchmarkCheckJPEG(b *testing.B) {
	coded := strings.Repeat("0123456789abcdef\xff\x00", 300<<10/18)
	picture := []byte(start + frame(sof0, 1280, 960, 3) + scan + coded + end)
	b.SetBytes(int64(len(picture)))
	for b.Loop() {
		if err := checkJPEG(picture); err != nil {
			b.Fatal(err)
		}
	}
}
