package weburl

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// punycodePrefix begins a label that stands for one in other characters.
const punycodePrefix = "xn--"

// isPunycode reports whether a lower-case label that begins with punycodePrefix is valid. A browser decodes
// such a label before it opens the address, and shows an error if it cannot. isPunycode applies the rules for
// labels (UTS 46) that need no tables: no invisible characters and no capital letters.
func isPunycode(label string) bool {
	decoded, ok := decodePunycode(label[len(punycodePrefix):])
	if !ok {
		return false
	}
	for _, r := range decoded {
		joiner := r == 0x200c || r == 0x200d       // Persian and Indic names have them
		cherokee := '\u13a0' <= r && r <= '\u13f5' // here capital letters are the usual ones
		if !strconv.IsPrint(r) && !joiner || unicode.ToLower(r) != r && !cherokee {
			return false
		}
	}
	return true
}

// Of RFC 3492, section 5.
const (
	punyBase, punyMin, punyMax, punySkew, punyDamp = 36, 1, 26, 38, 700
	initialBias, initialN                          = 72, 0x80
)

// decodePunycode is the decoder of RFC 3492, section 6.2, for lower case. An encoder writes at least one
// character that is not ASCII, so a text without one is not ok.
func decodePunycode(s string) (out []rune, ok bool) {
	if i := strings.LastIndexByte(s, '-'); i >= 0 {
		out, s = []rune(s[:i]), s[i+1:]
	}
	if s == "" {
		return nil, false
	}
	n, at, bias := initialN, 0, initialBias
	for first := true; s != ""; first = false {
		before, weight := at, 1
		for k := punyBase; ; k += punyBase {
			if s == "" {
				return nil, false
			}
			digit := strings.IndexByte(punyDigits, s[0])
			if s = s[1:]; digit < 0 || digit > (math.MaxInt32-at)/weight {
				return nil, false
			}
			at += digit * weight
			t := min(max(k-bias, punyMin), punyMax)
			if digit < t {
				break
			}
			if weight > math.MaxInt32/(punyBase-t) {
				return nil, false
			}
			weight *= punyBase - t
		}
		bias = adaptPunycode(at-before, len(out)+1, first)
		n, at = n+at/(len(out)+1), at%(len(out)+1)
		if !utf8.ValidRune(rune(n)) {
			return nil, false
		}
		out = slices.Insert(out, at, rune(n))
		at++
	}
	return out, true
}

// toASCII returns the A-label form of a host that has other than ASCII characters, for a message. It returns
// "" if there is nothing to write in another way, or if that needs tables of Unicode which are not at hand:
// then a browser may take the name for another one.
func toASCII(host string) string {
	if isASCII(host) {
		return ""
	}
	labels := strings.Split(strings.ToLower(host), ".")
	for n, label := range labels {
		if isASCII(label) {
			continue
		}
		if strings.ContainsFunc(label, func(r rune) bool {
			return r > '~' && (!unicode.IsLetter(r) && !unicode.IsDigit(r) || r >= firstCompatible)
		}) {
			return ""
		}
		labels[n] = punycodePrefix + encodePunycode([]rune(label))
	}
	if host = strings.Join(labels, "."); !isHost(host) {
		return ""
	}
	return host
}

// firstCompatible is where the forms begin that Unicode keeps for compatibility, such as wide letters.
const firstCompatible = 0xf900

// encodePunycode is the encoder of RFC 3492, section 6.3.
func encodePunycode(label []rune) string {
	var out []byte
	for _, r := range label {
		if r < initialN {
			out = append(out, byte(r))
		}
	}
	basic := len(out)
	if basic > 0 {
		out = append(out, '-')
	}
	n, delta, bias := rune(initialN), 0, initialBias
	for done := basic; done < len(label); n++ {
		next := rune(math.MaxInt32)
		for _, r := range label {
			if r >= n {
				next = min(next, r)
			}
		}
		delta += int(next-n) * (done + 1)
		n = next
		for _, r := range label {
			if r < n {
				delta++
			}
			if r != n {
				continue
			}
			out = appendDelta(out, delta, bias)
			bias = adaptPunycode(delta, done+1, done == basic)
			delta = 0
			done++
		}
		delta++
	}
	return string(out)
}

// appendDelta writes a number of variable length.
func appendDelta(out []byte, delta, bias int) []byte {
	for k := punyBase; ; k += punyBase {
		t := min(max(k-bias, punyMin), punyMax)
		if delta < t {
			return append(out, punyDigits[delta])
		}
		out = append(out, punyDigits[t+(delta-t)%(punyBase-t)])
		delta = (delta - t) / (punyBase - t)
	}
}

const punyDigits = "abcdefghijklmnopqrstuvwxyz0123456789"

// adaptPunycode is section 6.1: it estimates the next delta.
func adaptPunycode(delta, length int, first bool) (bias int) {
	if first {
		delta /= punyDamp
	} else {
		delta /= 2
	}
	delta += delta / length
	for ; delta > (punyBase-punyMin)*punyMax/2; bias += punyBase {
		delta /= punyBase - punyMin
	}
	return bias + (punyBase-punyMin+1)*delta/(delta+punySkew)
}
