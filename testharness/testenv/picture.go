package testenv

import (
	"bytes"
	"image"
	"image/jpeg"
	"slices"
)

// Picture returns a grey JPEG of that many bytes. Estimators accept it. The rest of its size is image data
// behind the last block, which decoders skip and Verge does not remove. It panics below 2,048 bytes.
func Picture(size int) []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 256, 256)), nil); err != nil {
		panic(err) // only a writer can fail
	}
	whole, end := b.Bytes(), b.Len()-2 // the end is a marker of two bytes
	if size < b.Len() {
		panic("testenv: a picture needs more bytes")
	}
	return slices.Concat(whole[:end], bytes.Repeat([]byte{'x'}, size-b.Len()), whole[end:])
}
