// Command icon draws favicon.ico, the mark of the pages on a tile.
//
// go generate runs it in the folder that has the file. It is a build tool and never part of the core.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
)

func main() {
	out, err := icon(32)
	if err == nil {
		err = os.WriteFile("favicon.ico", out, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate/icon:", err)
		os.Exit(1)
	}
}

// icon is an ICO file with one picture, a PNG of size by size pixels.
func icon(size int) ([]byte, error) {
	var picture bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&picture, draw(size)); err != nil {
		return nil, err
	}
	const header = 6 + 16
	out := make([]byte, header, header+picture.Len())
	binary.LittleEndian.PutUint16(out[2:], 1) // an icon
	binary.LittleEndian.PutUint16(out[4:], 1) // with one picture
	out[6], out[7] = byte(size), byte(size)
	binary.LittleEndian.PutUint16(out[10:], 1)  // plane
	binary.LittleEndian.PutUint16(out[12:], 32) // bits per pixel
	binary.LittleEndian.PutUint32(out[14:], uint32(picture.Len()))
	binary.LittleEndian.PutUint32(out[18:], header)
	return append(out, picture.Bytes()...), nil
}

var (
	tile = color.NRGBA{0x0b, 0x6a, 0x5a, 0xff} // --accent of verge.css
	ink  = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

// fine is how many points of a pixel are sampled in each direction.
const fine = 8

func draw(size int) image.Image {
	m := image.NewNRGBA(image.Rect(0, 0, size, size))
	for y := range size {
		for x := range size {
			onTile, onMark := 0, 0
			for i := range fine * fine {
				p := point{
					x: (float64(x) + (float64(i%fine)+.5)/fine) / float64(size) * 32,
					y: (float64(y) + (float64(i/fine)+.5)/fine) / float64(size) * 32,
				}
				if p.inTile() {
					onTile++
				}
				if p.inMark() {
					onMark++
				}
			}
			m.SetNRGBA(x, y, mix(onTile, onMark))
		}
	}
	return m
}

// mix returns the colour of a pixel from how many of its points are on the tile and on the mark.
func mix(onTile, onMark int) color.NRGBA {
	if onTile == 0 {
		return color.NRGBA{}
	}
	blend := func(a, b uint8) uint8 { return uint8((int(a)*(onTile-onMark) + int(b)*onMark) / onTile) }
	opaque := uint8(255 * onTile / (fine * fine))
	return color.NRGBA{blend(tile.R, ink.R), blend(tile.G, ink.G), blend(tile.B, ink.B), opaque}
}

// point is a place on a picture of 32 by 32.
type point struct{ x, y float64 }

// inTile reports whether the point is on the tile, which has round corners.
func (p point) inTile() bool {
	const radius = 7
	dx, dy := max(radius-p.x, p.x-(32-radius), 0), max(radius-p.y, p.y-(32-radius), 0)
	return math.Hypot(dx, dy) <= radius
}

// inMark reports whether the point is on a stroke of the mark. The mark is the mark of document.templ, a
// little smaller.
func (p point) inMark() bool {
	for _, s := range [][2]point{{{9, 9.5}, {16, 22.5}}, {{16, 22.5}, {23, 9.5}}, {{14, 9.5}, {18, 9.5}}} {
		if p.from(s[0], s[1]) <= 1.5 {
			return true
		}
	}
	return false
}

// from returns the distance from the stroke between a and b.
func (p point) from(a, b point) float64 {
	dx, dy := b.x-a.x, b.y-a.y
	t := min(max(((p.x-a.x)*dx+(p.y-a.y)*dy)/(dx*dx+dy*dy), 0), 1)
	return math.Hypot(p.x-a.x-t*dx, p.y-a.y-t*dy)
}
