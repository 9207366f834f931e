package brand

import (
	"encoding/binary"
	"strconv"
)

// Limits of a logo. A page shows it 40 pixels high.
const (
	MaxLogo   = 64 << 10 // bytes of the file
	minSide   = 16       // pixels
	maxSide   = 2048
	maxPixels = 1 << 20
)

// Logo is the properties of an image.
type Logo struct {
	Format        Format
	Width, Height int
}

// Format is a format of logos. It is the ending of a file's name, too.
type Format string

// The formats.
const (
	PNG  Format = "png"
	JPEG Format = "jpg"
	WebP Format = "webp"
)

// ContentType returns the media type of f, or "" if f is no format of logos.
func (f Format) ContentType() string {
	switch f {
	case PNG:
		return "image/png"
	case JPEG:
		return "image/jpeg"
	case WebP:
		return "image/webp"
	}
	return ""
}

// ReadLogo returns the properties of the image in b. problem is the reason why b is no logo, or "".
//
// The content alone determines the format. The file must be one still image from its first to its last byte,
// so that it is not a file of another format, too. ReadLogo finds its size before anyone decodes pixels.
func ReadLogo(b []byte) (l Logo, problem string) {
	switch {
	case len(b) > MaxLogo:
		return l, "The file is larger than " + strconv.Itoa(MaxLogo>>10) + " KiB."
	case len(b) > 8 && string(b[:8]) == "\x89PNG\r\n\x1a\n":
		l.Format = PNG
		l.Width, l.Height, problem = sizeOfPNG(b[8:])
	case len(b) > 3 && string(b[:3]) == "\xff\xd8\xff":
		l.Format = JPEG
		l.Width, l.Height, problem = sizeOfJPEG(b[2:])
	case len(b) > 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		l.Format = WebP
		l.Width, l.Height, problem = sizeOfWebP(b)
	default:
		return l, "Only PNG, JPEG and WebP images are accepted."
	}
	switch {
	case problem != "":
		return Logo{}, problem
	case min(l.Width, l.Height) < minSide:
		return Logo{}, "The image is smaller than 16 pixels."
	case max(l.Width, l.Height) > maxSide || l.Width*l.Height > maxPixels:
		return Logo{}, "The image has too many pixels: a side has at most 2048, and the image 1,048,576."
	}
	return l, ""
}

// Problems of files.
const (
	damaged  = "The image is incomplete or damaged."
	animated = "Animated images are not accepted."
	appended = "The file has data after the image. Save the image again and use that file."
)

// sizeOfPNG reads the chunks of a PNG file, after its signature.
func sizeOfPNG(b []byte) (width, height int, problem string) {
	pixels := false
	for first := true; ; first = false {
		if len(b) < 12 {
			return 0, 0, damaged
		}
		size := binary.BigEndian.Uint32(b)
		if int64(size) > int64(len(b)-12) {
			return 0, 0, damaged
		}
		kind, data := string(b[4:8]), b[8:8+size]
		b = b[12+size:]
		if first != (kind == "IHDR") || kind == "IHDR" && len(data) != 13 {
			return 0, 0, damaged
		}
		switch kind {
		case "IHDR":
			w, h := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
			width, height = int(min(w, maxSide+1)), int(min(h, maxSide+1))
		case "acTL":
			return 0, 0, animated
		case "IDAT":
			pixels = true
		case "IEND":
			return width, height, end(pixels, b)
		}
	}
}

// end returns the problem of a file that has, or lacks, pixels and continues with rest.
func end(pixels bool, rest []byte) string {
	switch {
	case !pixels:
		return damaged
	case len(rest) > 0:
		return appended
	}
	return ""
}

// sizeOfJPEG reads the segments of a JPEG file, after its first marker.
func sizeOfJPEG(b []byte) (width, height int, problem string) {
	pixels := false
	for {
		if len(b) < 2 || b[0] != 0xff {
			return 0, 0, damaged
		}
		kind := b[1]
		switch {
		case kind == 0xff: // a fill byte
			b = b[1:]
			continue
		case kind == 0xd9: // the end
			return width, height, end(pixels, b[2:])
		case len(b) < 4:
			return 0, 0, damaged
		}
		size := int(binary.BigEndian.Uint16(b[2:])) + 2
		if size < 4 || size > len(b) {
			return 0, 0, damaged
		}
		segment := b[4:size]
		b = b[size:]
		switch {
		case kind == 0xc0 || kind == 0xc1 || kind == 0xc2: // the frames that browsers decode
			if len(segment) < 6 || width > 0 {
				return 0, 0, damaged
			}
			height, width = int(
				binary.BigEndian.Uint16(segment[1:]),
			), int(
				binary.BigEndian.Uint16(segment[3:]),
			)
		case kind == 0xda: // a scan
			if width == 0 {
				return 0, 0, damaged
			}
			pixels = true
			b = afterScan(b)
		case kind < 0xc4 || kind > 0xc4 && kind < 0xcc && kind != 0xc8 || kind > 0xcc && kind < 0xd0:
			return 0, 0, damaged // a frame of another process, or no marker
		}
	}
}

// afterScan returns b from the first marker after the compressed pixels.
func afterScan(b []byte) []byte {
	for n := 0; n+1 < len(b); n++ {
		if b[n] == 0xff && b[n+1] != 0 && (b[n+1] < 0xd0 || b[n+1] > 0xd7) {
			return b[n:]
		}
	}
	return nil
}

// sizeOfWebP reads the chunks of a WebP file.
func sizeOfWebP(b []byte) (width, height int, problem string) {
	if size := binary.LittleEndian.Uint32(b[4:]); int64(size) != int64(len(b)-8) {
		if int64(size) < int64(len(b)-8) {
			return 0, 0, appended
		}
		return 0, 0, damaged
	}
	var canvasWidth, canvasHeight int
	pixels := false
	for b = b[12:]; len(b) > 0; {
		if len(b) < 8 {
			return 0, 0, damaged
		}
		size := int64(binary.LittleEndian.Uint32(b[4:]))
		padded := size + size&1
		if padded > int64(len(b)-8) {
			return 0, 0, damaged
		}
		kind, data := string(b[:4]), b[8:8+size]
		b = b[8+padded:]
		w, h := 0, 0
		switch kind {
		case "ANIM", "ANMF":
			return 0, 0, animated
		case "VP8X":
			if len(data) != 10 || pixels || canvasWidth > 0 {
				return 0, 0, damaged
			}
			if data[0]&2 != 0 {
				return 0, 0, animated
			}
			canvasWidth = 1 + int(data[4]) + int(data[5])<<8 + int(data[6])<<16
			canvasHeight = 1 + int(data[7]) + int(data[8])<<8 + int(data[9])<<16
			continue
		case "VP8 ":
			if len(data) < 10 || data[0]&1 != 0 || string(data[3:6]) != "\x9d\x01\x2a" {
				return 0, 0, damaged
			}
			w = int(binary.LittleEndian.Uint16(data[6:])) & 0x3fff
			h = int(binary.LittleEndian.Uint16(data[8:])) & 0x3fff
		case "VP8L":
			if len(data) < 5 || data[0] != 0x2f {
				return 0, 0, damaged
			}
			bits := binary.LittleEndian.Uint32(data[1:])
			w, h = 1+int(bits&0x3fff), 1+int(bits>>14&0x3fff)
		default:
			continue
		}
		if pixels || canvasWidth > 0 && (w != canvasWidth || h != canvasHeight) {
			return 0, 0, damaged
		}
		width, height, pixels = w, h, true
	}
	return width, height, end(pixels, nil)
}
