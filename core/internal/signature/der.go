package signature

import "slices"

// Tags of DER (X.690).
const (
	tagInteger   = 0x02
	tagBitString = 0x03
	tagSequence  = 0x30
)

// der returns a value with its tag and its length, which is below 64 KiB.
func der(tag byte, parts ...[]byte) []byte {
	content := slices.Concat(parts...)
	head := []byte{tag, byte(len(content))}
	switch n := len(content); {
	case n > 0xff:
		head = []byte{tag, 0x82, byte(n >> 8), byte(n)}
	case n > 0x7f:
		head = []byte{tag, 0x81, byte(n)}
	}
	return append(head, content...)
}

// integer returns a number above zero, given big endian, as an INTEGER.
func integer(n []byte) []byte {
	for len(n) > 1 && n[0] == 0 {
		n = n[1:]
	}
	if n[0]&0x80 != 0 {
		n = append([]byte{0}, n...)
	}
	return der(tagInteger, n)
}

// flatten returns the numbers of an ECDSA signature in DER, each with size bytes. It is not ok for anything
// other than DER, and for a number that is negative or has more bytes.
func flatten(signature []byte, size int) (flat []byte, ok bool) {
	content, rest, ok := read(tagSequence, signature)
	if !ok || len(rest) > 0 {
		return nil, false
	}
	flat = make([]byte, 2*size)
	for _, half := range [][]byte{flat[:size], flat[size:]} {
		var n []byte
		if n, content, ok = read(tagInteger, content); !ok || len(n) == 0 || n[0]&0x80 != 0 {
			return nil, false
		}
		if n[0] == 0 && len(n) > 1 {
			if n = n[1:]; n[0]&0x80 == 0 { // the zero was not needed
				return nil, false
			}
		}
		if len(n) > size {
			return nil, false
		}
		copy(half[size-len(n):], n)
	}
	return flat, len(content) == 0
}

// read returns the content of the first value, which must have that tag and a length below 256, and the
// rest. The longest signature, by P-521, has 139 bytes.
func read(tag byte, b []byte) (content, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != tag {
		return nil, nil, false
	}
	n, b := int(b[1]), b[2:]
	if n == 0x81 {
		if len(b) == 0 || b[0] < 0x80 { // the short form would do
			return nil, nil, false
		}
		n, b = int(b[0]), b[1:]
	} else if n > 0x7f {
		return nil, nil, false
	}
	if len(b) < n {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// ASN1 returns an ECDSA signature in the form of X.509, which has r and s in DER, for one in the form of JWS.
func ASN1(flat []byte) []byte {
	half := len(flat) / 2
	return der(tagSequence, integer(flat[:half]), integer(flat[half:]))
}
