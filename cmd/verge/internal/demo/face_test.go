package demo_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

const faceWide, faceHigh = 640, 480

// drawnFace is a picture of a drawn person, as a webcam would take it.
func drawnFace() *image.YCbCr {
	m := image.NewYCbCr(image.Rect(0, 0, faceWide, faceHigh), image.YCbCrSubsampleRatio420)
	inside := func(x, y, cx, cy, rx, ry float64) bool {
		return math.Pow((x-cx)/rx, 2)+math.Pow((y-cy)/ry, 2) < 1
	}
	at := func(x, y float64) color.RGBA {
		switch {
		case inside(x, y, 285, 215, 9, 7), inside(x, y, 355, 215, 9, 7):
			return color.RGBA{0x2b, 0x23, 0x1f, 255}
		case inside(x, y, 320, 285, 34, 16) && y > 285:
			return color.RGBA{0xa8, 0x4f, 0x48, 255}
		case y < 160+math.Abs(x-320)/4 && inside(x, y, 320, 205, 108, 128):
			return color.RGBA{0x3a, 0x2a, 0x22, 255}
		case inside(x, y, 320, 230, 92, 122), inside(x, y, 320, 350, 42, 60):
			return color.RGBA{0xd9, 0xa6, 0x85, 255}
		case inside(x, y, 320, 520, 210, 150):
			return color.RGBA{0x2f, 0x5d, 0x7c, 255}
		}
		shade := uint8(170 + y/10)
		return color.RGBA{shade, shade, shade - 12, 255}
	}
	for y := range faceHigh {
		for x := range faceWide {
			c := at(float64(x), float64(y))
			luma, blue, red := color.RGBToYCbCr(c.R, c.G, c.B)
			m.Y[m.YOffset(x, y)] = luma
			m.Cb[m.COffset(x, y)], m.Cr[m.COffset(x, y)] = blue, red
		}
	}
	return m
}

// cameraFlags are the flags of a browser whose camera sees the drawn person, and which may use it.
func cameraFlags(dir string) ([]chromedp.ExecAllocatorOption, error) {
	face := drawnFace()
	var film bytes.Buffer
	fmt.Fprintf(&film, "YUV4MPEG2 W%d H%d F10:1 Ip A1:1 C420jpeg\n", faceWide, faceHigh)
	for range 10 {
		film.WriteString("FRAME\n")
		for _, plane := range [][]byte{face.Y, face.Cb, face.Cr} {
			film.Write(plane)
		}
	}
	file := filepath.Join(dir, "face.y4m")
	if err := os.WriteFile(file, film.Bytes(), 0o600); err != nil {
		return nil, err
	}
	return []chromedp.ExecAllocatorOption{
		chromedp.Flag("use-fake-device-for-media-stream", true),
		chromedp.Flag("use-fake-ui-for-media-stream", true),
		chromedp.Flag("use-file-for-fake-video-capture", file),
	}, nil
}

// pictureFile is a JPEG of the drawn person, as a user takes one with the phone's own camera.
func pictureFile(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, drawnFace(), nil); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "IMG 0001.jpg")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
