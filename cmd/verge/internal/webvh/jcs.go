package webvh

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// object is a JSON object. Its values are of this type, or of []any, string, json.Number, bool and nil.
type object map[string]any

func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

// texts returns a list of texts, which may be missing or null.
func (o object) texts(name string) (list []string, present, ok bool) {
	if o[name] == nil {
		return nil, false, true
	}
	values, ok := o[name].([]any)
	for _, v := range values {
		s, isText := v.(string)
		list, ok = append(list, s), ok && isText
	}
	return list, true, ok
}

func (o object) with(name, value string) object {
	changed := maps.Clone(o)
	changed[name] = value
	return changed
}

func (o object) without(name string) object {
	changed := maps.Clone(o)
	delete(changed, name)
	return changed
}

// maxDepth is the maximum number of levels of an entry.
const maxDepth = 32

var errJSON = errors.New("it is no JSON object")

// readObject reads a JSON object. A name that occurs twice is an error: readers would disagree about it.
func readObject(b []byte) (object, error) {
	if !utf8.Valid(b) {
		return nil, errJSON
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := readValue(d, 0)
	if err != nil {
		return nil, err
	}
	o, ok := v.(object)
	if _, err := d.Token(); !ok || !errors.Is(err, io.EOF) {
		return nil, errJSON
	}
	return o, nil
}

func readValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil || depth > maxDepth {
		return nil, errJSON
	}
	switch token {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, errJSON
			}
			key := name.(string) // the decoder allows no other type here
			if _, twice := o[key]; twice {
				return nil, fmt.Errorf("%q occurs twice", key)
			}
			if o[key], err = readValue(d, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	if n, ok := token.(json.Number); ok && !isSafe(n) {
		return nil, fmt.Errorf("the number %s is no integer below 2^53", n)
	}
	return token, nil
}

// isSafe reports whether a number is an integer that every reader writes in the same way.
func isSafe(n json.Number) bool {
	i, err := strconv.ParseInt(n.String(), 10, 64)
	return err == nil && i > -1<<53 && i < 1<<53 && strconv.FormatInt(i, 10) == n.String()
}

// canonical returns a value in the form of JCS (RFC 8785).
func canonical(v any) []byte {
	var b bytes.Buffer
	write(&b, v)
	return b.Bytes()
}

func write(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case object:
		b.WriteByte('{')
		for i, name := range slices.SortedFunc(maps.Keys(v), byUnits) {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, name)
			b.WriteByte(':')
			write(b, v[name])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, e)
		}
		b.WriteByte(']')
	case string:
		writeText(b, v)
	case nil:
		b.WriteString("null")
	default: // a number or a boolean
		fmt.Fprint(b, v)
	}
}

// byUnits compares names by their UTF-16 code units.
func byUnits(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// escapes are the short escapes of JCS.
var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\b", `\b`, "\f", `\f`, "\n", `\n`, "\r", `\r`,
	"\t", `\t`)

func writeText(b *bytes.Buffer, s string) {
	b.WriteByte('"')
	for _, r := range escapes.Replace(s) {
		if r < ' ' {
			fmt.Fprintf(b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	b.WriteByte('"')
}

const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// base58 returns the base58 of Bitcoin.
func base58(b []byte) string {
	n, radix, digit := new(big.Int).SetBytes(b), big.NewInt(58), new(big.Int)
	var text []byte
	for n.Sign() > 0 {
		n.DivMod(n, radix, digit)
		text = append(text, alphabet[digit.Int64()])
	}
	for i := 0; i < len(b) && b[i] == 0; i++ {
		text = append(text, alphabet[0])
	}
	slices.Reverse(text)
	return string(text)
}

// multibase reads a text of at most 128 characters in base58, which begins with z.
func multibase(text string) ([]byte, bool) {
	digits, ok := strings.CutPrefix(text, "z")
	if !ok || digits == "" || len(digits) > 128 {
		return nil, false
	}
	n := new(big.Int)
	for _, c := range []byte(digits) {
		at := strings.IndexByte(alphabet, c)
		if at < 0 {
			return nil, false
		}
		n.Add(n.Mul(n, big.NewInt(58)), big.NewInt(int64(at)))
	}
	zeros := len(digits) - len(strings.TrimLeft(digits, alphabet[:1]))
	return append(make([]byte, zeros), n.Bytes()...), true
}

// digest returns the multihash of a SHA-256, in base58.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return base58(append([]byte{0x12, 0x20}, sum[:]...))
}

func hashOf(o object) string { return digest(canonical(o)) }
