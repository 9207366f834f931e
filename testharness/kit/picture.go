package kit

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/jpeg"
)

// Picture returns a JPEG of exactly that many bytes that estimators take. It is grey, and what is missing to
// the size are comments. It panics below 2,048 bytes.
func Picture(size int) []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 256, 256)), nil); err != nil {
		panic(err) // only a writer can fail
	}
	whole := b.Bytes()
	const most = 32 << 10 // bytes of a comment with its head, of at most 65,537
	picture := append(make([]byte, 0, size), whole[:2]...)
	for missing := size - len(whole); missing > 0; missing = size - len(whole) - (len(picture) - 2) {
		n := missing
		if n > most {
			n = min(most, missing-4) // the last comment has room for its head
		}
		picture = binary.BigEndian.AppendUint16(append(picture, 0xff, 0xfe), uint16(n-2))
		picture = append(picture, bytes.Repeat([]byte{'x'}, n-4)...)
	}
	if picture = append(picture, whole[2:]...); len(picture) != size {
		panic("kit: a picture needs more bytes")
	}
	return picture
}
