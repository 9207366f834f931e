package estimator

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/verge-id/verge/core/internal/steperror"
	"github.com/verge-id/verge/core/method"
)

// Limits of a picture. The estimator decodes it, so a sent picture must not cost it more than a picture of a
// camera does.
const (
	minSide     = 256
	maxSide     = 4096
	maxSegments = 128 // cameras write up to about 40
	maxScans    = 32  // a progressive picture has about 10
)

// JPEG markers, behind their 0xff.
const (
	soi   = 0xd8 // start of image
	eoi   = 0xd9 // end of image
	sos   = 0xda // start of scan
	dqt   = 0xdb // quantization tables
	dht   = 0xc4 // Huffman tables
	dri   = 0xdd // restart interval
	sof0  = 0xc0 // frame: baseline
	sof2  = 0xc2 // frame: progressive
	app0  = 0xe0 // first of 16 for applications
	app1  = 0xe1 // Exif and XMP
	app14 = 0xee // Adobe
	com   = 0xfe // comment
	rst0  = 0xd0 // first of 8 restarts inside a scan
)

// cleanJPEG returns a photo as the estimator gets it, or the fault of the photo. The picture must be one
// whole JPEG, baseline or progressive, in grey or in three colours of 8 bits, with 256 to 4096 pixels a side,
// and nothing before it. It is walked through marker by marker and never decoded. The error is a
// steperror.File and contains no data of the photo.
//
// Only the parts that a decoder needs are copied, so that no metadata leaves the service (contract 37). A
// segment for applications is never copied: one that matters for decoding is written again from the one value
// that does. The rest is left out: Exif with the place and the device, XMP, colour profiles, previews,
// comments, and everything behind the end, such as further pictures or a film.
func cleanJPEG(picture []byte) (clean []byte, err error) {
	if len(picture) > method.MaxFile {
		return nil, wrongFile(steperror.Large, "it is too large")
	}
	if !bytes.HasPrefix(picture, []byte{0xff, soi}) {
		return nil, wrongFile(steperror.Type, "it does not begin as a JPEG")
	}
	w := walk{rest: picture[2:], clean: append(make([]byte, 0, len(picture)), 0xff, soi)}
	for segments := 0; ; segments++ {
		if segments == maxSegments {
			return nil, wrongFile(steperror.Damaged, "it has too many segments")
		}
		marker, ok := w.marker()
		if !ok {
			return nil, wrongFile(steperror.Damaged, "it is cut, or has data between its segments")
		}
		if marker == eoi {
			break
		}
		if !isApplication(marker) && !slices.Contains([]byte{sof0, sof2, sos, dqt, dht, dri, com}, marker) {
			return nil, wrongFile(steperror.Type,
				"it has a marker that no baseline or progressive JPEG has there")
		}
		segment, ok := w.segment()
		if !ok {
			return nil, wrongFile(steperror.Damaged, "it is cut in a segment")
		}
		if err := w.take(marker, segment); err != nil {
			return nil, err
		}
	}
	if w.scans == 0 {
		return nil, wrongFile(steperror.Damaged, "it has no scan")
	}
	return append(w.clean, 0xff, eoi), nil
}

// take checks a segment and copies the parts for the estimator.
func (w *walk) take(marker byte, segment []byte) error {
	switch {
	case marker == com:
		return nil
	case isApplication(marker):
		w.application(marker, segment)
		return nil
	}
	w.copy(marker, segment)
	switch marker {
	case sof0, sof2:
		return w.frame(segment)
	case sos:
		return w.scan(segment)
	}
	return nil
}

func isApplication(marker byte) bool { return marker >= app0 && marker < app0+16 }

func wrongFile(rule steperror.Rule, problem string) error {
	return &steperror.File{Rule: rule, Problem: problem}
}

// walk goes through the segments of a JPEG.
type walk struct {
	rest  []byte
	clean []byte // the copy

	jfif, exif, adobe bool // whether there was such a segment
	components        int  // of the frame; 0: before the frame
	scans             int
}

// copy adds a segment to the copy.
func (w *walk) copy(marker byte, segment []byte) {
	w.clean = append(w.clean, 0xff, marker)
	w.clean = binary.BigEndian.AppendUint16(w.clean, uint16(2+len(segment)))
	w.clean = append(w.clean, segment...)
}

// Segments for applications, as the copy has them. None is longer than the shortest segment that it replaces.
const (
	exifHead = "Exif\x00\x00"

	jfif = "JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00" // version 1.1, no resolution, no preview
	exif = exifHead + "MM\x00\x2a\x00\x00\x00\x08" +      // big endian, and the first directory follows
		"\x00\x01" + // with one entry: the orientation, one short number
		"\x01\x12\x00\x03\x00\x00\x00\x01\x00"
	exifEnd = "\x00\x00\x00\x00\x00\x00"      // the rest of the entry, and no further directory
	adobe   = "Adobe\x00\x64\x00\x00\x00\x00" // version 100, no flags
)

// application writes again the one value of a segment for applications that a decoder needs. JFIF and Adobe
// define how three components make a colour, and Exif which side is up. Decoders use the first of each.
func (w *walk) application(marker byte, segment []byte) {
	begins := func(with string) bool { return bytes.HasPrefix(segment, []byte(with)) }
	first := func(seen *bool) bool { was := *seen; *seen = true; return !was }
	switch {
	case marker == app0 && len(segment) >= len(jfif) && begins("JFIF\x00") && first(&w.jfif):
		w.copy(marker, []byte(jfif))
	case marker == app1 && begins(exifHead) && first(&w.exif):
		if side := orientation(segment[len(exifHead):]); side > 1 {
			w.copy(marker, append(append([]byte(exif), side), exifEnd...))
		}
	case marker == app14 && len(segment) > len(adobe) && begins("Adobe") && first(&w.adobe):
		w.copy(marker, append([]byte(adobe), min(segment[len(adobe)], 1))) // 0: the components are colours
	}
}

// orientation returns the orientation (1 to 8) in the first directory of Exif data, or 0.
func orientation(tiff []byte) byte {
	if len(tiff) < 8 {
		return 0
	}
	var order binary.ByteOrder = binary.BigEndian
	switch string(tiff[:4]) {
	case "MM\x00\x2a":
	case "II\x2a\x00":
		order = binary.LittleEndian
	default:
		return 0
	}
	directory := uint64(order.Uint32(tiff[4:]))
	if directory+2 > uint64(len(tiff)) {
		return 0
	}
	entries := tiff[directory+2:]
	for range order.Uint16(tiff[directory:]) {
		if len(entries) < 12 {
			return 0
		}
		const tag, short = 0x0112, 3
		if order.Uint16(entries) == tag {
			side := order.Uint16(entries[8:])
			if order.Uint16(entries[2:]) != short || order.Uint32(entries[4:]) != 1 || side > 8 {
				return 0
			}
			return byte(side)
		}
		entries = entries[12:]
	}
	return 0
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

// segment reads the segment of a marker: two bytes of length, which count themselves, and the rest.
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
func (w *walk) frame(header []byte) error {
	if w.components > 0 {
		return wrongFile(steperror.Damaged, "it has a second frame")
	}
	if len(header) < 6 || len(header) != 6+3*int(header[5]) {
		return wrongFile(steperror.Damaged, "its frame header is cut or too long")
	}
	height, width := binary.BigEndian.Uint16(header[1:]), binary.BigEndian.Uint16(header[3:])
	switch components := int(header[5]); {
	case header[0] != 8:
		return wrongFile(steperror.Type, "its samples do not have 8 bits")
	case components != 1 && components != 3:
		return wrongFile(steperror.Type, "it is neither grey nor in three colours")
	case min(height, width) < minSide:
		return wrongFile(steperror.Small, "it has too few pixels")
	case max(height, width) > maxSide:
		return wrongFile(steperror.Wide, "it has too many pixels")
	default:
		w.components = components
	}
	for sampling := header[7:]; ; sampling = sampling[3:] {
		if h, v := sampling[0]>>4, sampling[0]&15; h < 1 || h > 4 || v < 1 || v > 4 {
			return wrongFile(steperror.Damaged, "its sampling factors are not in order")
		}
		if len(sampling) < 3 {
			return nil
		}
	}
}

// scan judges a scan's header, and copies the coded data behind it. In there, 0xff is followed by 0 or by the
// number of a restart. Any other marker ends the scan.
func (w *walk) scan(header []byte) error {
	switch {
	case w.components == 0:
		return wrongFile(steperror.Damaged, "it has a scan before its frame")
	case len(header) < 1 || header[0] < 1 || int(header[0]) > w.components ||
		len(header) != 4+2*int(header[0]):
		return wrongFile(steperror.Damaged, "its scan header is not in order")
	}
	if w.scans++; w.scans > maxScans {
		return wrongFile(steperror.Damaged, "it has too many scans")
	}
	coded := w.rest
	for {
		n := bytes.IndexByte(w.rest, 0xff)
		if n < 0 || n+1 == len(w.rest) {
			return wrongFile(steperror.Damaged, "it is cut in a scan")
		}
		w.rest = w.rest[n:]
		if next := w.rest[1]; next != 0 && (next < rst0 || next >= rst0+8) {
			w.clean = append(w.clean, coded[:len(coded)-len(w.rest)]...)
			return nil
		}
		w.rest = w.rest[2:]
	}
}
