package pages

import (
	"errors"
	"strconv"
	"sync"

	"rsc.io/qr/coding"
)

// qr is a QR code as one path of an SVG. Its unit is a module.
type qr struct {
	text string // the content
	box  string // the viewBox
	wide string // the width in CSS pixels
	path string // each row's dark modules, as lines that are one module thick
	what string // the label for screen readers
	hint string // the instruction next to it
}

// quietZone is the number of light modules that the standard requires around a code.
const quietZone = 4

// A code is about comfortable CSS pixels wide. Each module has the same whole number of pixels, and at least
// leastModule, which a camera needs. A narrower page shrinks the code.
const (
	comfortable = 304
	leastModule = 3
)

// longText is the length in bytes above which a code has the lowest level of error correction. The request of
// a wallet makes a dense code, and larger modules help a camera more than redundancy does.
const longText = 200

// newQR encodes a text. The error means that it is too long for any code: more than 2,953 bytes.
func newQR(text string) (*qr, error) {
	level := coding.M
	if len(text) > longText {
		level = coding.L
	}
	bytes := coding.String(text)
	version := coding.Version(coding.MinVersion)
	for bytes.Bits(version) > version.DataBytes(level)*8 {
		if version++; version > coding.MaxVersion {
			return nil, errors.New("the text is too long for a QR code")
		}
	}
	plan, err := planOf(layout{version, level})
	if err != nil {
		return nil, err
	}
	code, err := plan.Encode(bytes)
	if err != nil {
		return nil, err
	}
	modules := code.Size + 2*quietZone
	side := strconv.Itoa(modules)
	return &qr{text: text, box: "0 0 " + side + " " + side, path: pathOf(code),
		wide: strconv.Itoa(modules * max(comfortable/modules, leastModule))}, nil
}

// layout is the size and the level of error correction of a code. The place of each bit follows from them.
type layout struct {
	version coding.Version
	level   coding.Level
}

// plans stores the plan of each layout, because calculating it takes as long as the rest of a code. The
// sizes and levels limit their number.
var plans sync.Map // of *coding.Plan, by layout

func planOf(l layout) (*coding.Plan, error) {
	if plan, ok := plans.Load(l); ok {
		return plan.(*coding.Plan), nil
	}
	plan, err := coding.NewPlan(l.version, l.level, 0)
	if err != nil {
		return nil, err
	}
	plans.Store(l, plan)
	return plan, nil
}

// pathOf draws a code. Lines are relative to the previous line, which makes the path short.
func pathOf(code *coding.Code) string {
	path := make([]byte, 0, 2*code.Size*code.Size)
	for y := range code.Size {
		row := code.Bitmap[y*code.Stride:]
		isDark := func(x int) bool { return row[x/8]<<(x%8)&0x80 != 0 } // code.Black checks the bounds, too
		path = append(path, 'M')
		path = strconv.AppendInt(path, quietZone, 10)
		path = append(path, ' ')
		path = strconv.AppendInt(path, int64(y+quietZone), 10)
		path = append(path, ".5"...)
		for x := 0; x < code.Size; {
			from, dark := x, isDark(x)
			for x < code.Size && isDark(x) == dark {
				x++
			}
			switch {
			case dark:
				path = append(path, 'h')
				path = strconv.AppendInt(path, int64(x-from), 10)
			case x < code.Size:
				path = append(path, 'm')
				path = strconv.AppendInt(path, int64(x-from), 10)
				path = append(path, " 0"...)
			}
		}
	}
	return string(path)
}
