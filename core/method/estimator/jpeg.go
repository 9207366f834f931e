package estimator

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/verge-id/verge/core/method"
)

// Limits of a picture. The estimator decodes it, so what is sent must not be able to cost more than a picture
// of a camera does.
const (
	minSide     = 256
	maxSide     = 4096
	maxSegments = 128 // cameras write up to about 40
	maxScans    = 32  // a progressive picture has about 10
	maxPadding  = 8   // bytes behind the end
)

// JPEG markers, behind their 0xff.
const (
	soi  = 0xd8 // start of image
	eoi  = 0xd9 // end of image
	sos  = 0xda // start of scan
	dqt  = 0xdb // quantization tables
	dht  = 0xc4 // Huffman tables
	dri  = 0xdd // restart interval
	sof0 = 0xc0 // frame: baseline
	sof2 = 0xc2 // frame: progressive
	app0 = 0xe0 // first of 16 for applications
	com  = 0xfe // comment
	rst0 = 0xd0 // first of 8 restarts inside a scan
)

// checkJPEG reports what is wrong with a picture. It must be one whole JPEG, baseline or progressive, in
// grey or in three colours of 8 bits, with 256 to 4096 pixels a side. Nothing may stand before it, and
// nothing but a few bytes behind it, so it is not another kind of file at the same time. The picture is
// walked through marker by marker and never decoded. The error is a method.ErrFile and repeats nothing of
// the picture.
func checkJPEG(picture []byte) error {
	if len(picture) > method.MaxFile {
		return wrongFile("it is too large")
	}
	if !bytes.HasPrefix(picture, []byte{0xff, soi}) {
		return wrongFile("it does not begin as a JPEG")
	}
	w := walk{rest: picture[2:]}
	for segments := 0; ; segments++ {
		if segments == maxSegments {
			return wrongFile("it has too many segments")
		}
		marker, ok := w.marker()
		if !ok {
			return wrongFile("it is cut, or has data between its segments")
		}
		if marker == eoi {
			break
		}
		read, ok := readers[marker]
		if !ok {
			return wrongFile("it has a marker that no baseline or progressive JPEG has there")
		}
		segment, ok := w.segment()
		if !ok {
			return wrongFile("it is cut in a segment")
		}
		if problem := read(&w, segment); problem != "" {
			return wrongFile(problem)
		}
	}
	if w.scans == 0 {
		return wrongFile("it has no scan")
	}
	if len(w.rest) > maxPadding {
		return wrongFile("it has data behind its end")
	}
	return nil
}

// readers judge the segment of each marker that may stand outside of a scan. They return what is wrong.
var readers = func() map[byte]func(w *walk, segment []byte) (problem string) {
	skip := func(*walk, []byte) string { return "" }
	all := map[byte]func(*walk, []byte) string{
		sof0: (*walk).frame, sof2: (*walk).frame, sos: (*walk).scan,
		dqt: skip, dht: skip, dri: skip, com: skip,
	}
	for n := range byte(16) {
		all[app0+n] = skip
	}
	return all
}()

func wrongFile(problem string) error { return fmt.Errorf("%w: %s", method.ErrFile, problem) }

// walk goes through the segments of a JPEG.
type walk struct {
	rest       []byte
	components int // of the frame; 0: there was none yet
	scans      int
}

// marker reads the next marker. A marker may have more than one 0xff before it.
func (w *walk) marker() (marker byte, ok bool) {
	if len(w.rest) == 0 || w.rest[0] != 0xff {
		return 0, false
	}
	for len(w.rest) > 0 && w.rest[0] == 0xff {
		w.rest = w.rest[1:]
	}
	if len(w.rest) == 0 {
		return 0, false
	}
	marker, w.rest = w.rest[0], w.rest[1:]
	return marker, true
}

// segment reads what belongs to a marker: two bytes of length, which count themselves, and the rest.
func (w *walk) segment() (segment []byte, ok bool) {
	if len(w.rest) < 2 {
		return nil, false
	}
	n := int(binary.BigEndian.Uint16(w.rest))
	if n < 2 || n > len(w.rest) {
		return nil, false
	}
	segment, w.rest = w.rest[2:n], w.rest[n:]
	return segment, true
}

// frame judges a frame's header: precision, height, width, and three bytes for each component.
func (w *walk) frame(header []byte) (problem string) {
	if w.components > 0 {
		return "it has a second frame"
	}
	if len(header) < 6 || len(header) != 6+3*int(header[5]) {
		return "its frame header is cut or too long"
	}
	height, width := binary.BigEndian.Uint16(header[1:]), binary.BigEndian.Uint16(header[3:])
	switch components := int(header[5]); {
	case header[0] != 8:
		return "its samples do not have 8 bits"
	case components != 1 && components != 3:
		return "it is neither grey nor in three colours"
	case min(height, width) < minSide:
		return "it has too few pixels"
	case max(height, width) > maxSide:
		return "it has too many pixels"
	default:
		w.components = components
	}
	for sampling := header[7:]; ; sampling = sampling[3:] {
		if h, v := sampling[0]>>4, sampling[0]&15; h < 1 || h > 4 || v < 1 || v > 4 {
			return "its sampling factors are not in order"
		}
		if len(sampling) < 3 {
			return ""
		}
	}
}

// scan judges a scan's header, and skips the coded data behind it. In there, 0xff is followed by 0 or by the
// number of a restart. Any other marker ends the scan.
func (w *walk) scan(header []byte) (problem string) {
	switch {
	case w.components == 0:
		return "it has a scan before its frame"
	case len(header) < 1 || header[0] < 1 || int(header[0]) > w.components ||
		len(header) != 4+2*int(header[0]):
		return "its scan header is not in order"
	}
	if w.scans++; w.scans > maxScans {
		return "it has too many scans"
	}
	for {
		n := bytes.IndexByte(w.rest, 0xff)
		if n < 0 || n+1 == len(w.rest) {
			return "it is cut in a scan"
		}
		w.rest = w.rest[n:]
		if next := w.rest[1]; next != 0 && (next < rst0 || next >= rst0+8) {
			return ""
		}
		w.rest = w.rest[2:]
	}
}
