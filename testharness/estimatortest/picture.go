package estimatortest

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
)

// Picture returns a JPEG that every estimator accepts. It shows no person.
func Picture() []byte {
	const width, height = 320, 400
	img := image.NewGray(image.Rect(0, 0, width, height))
	for x := range width {
		for y := range height {
			img.SetGray(x, y, color.Gray{Y: uint8(x ^ y)})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		panic(err) // only a writer can fail
	}
	return b.Bytes()
}
