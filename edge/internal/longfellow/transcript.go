package longfellow

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// transcript derives the verifier's challenges from the prover's messages so far (Fiat-Shamir). A
// challenge is read from AES-256 in counter mode whose key is the hash of the transcript. The counter is the
// block's first eight bytes, the lowest first. Each write begins a new stream.
type transcript struct {
	hash   hash.Hash
	stream cipher.Block // nil after a write
	next   uint64       // block of the stream
	block  [aes.BlockSize]byte
	unread int // bytes of the block
}

// The tags of messages.
const (
	tagBytes   = 0
	tagElement = 1
	tagArray   = 2
)

func newTranscript(session []byte) *transcript {
	t := &transcript{hash: sha256.New()}
	t.bytes(session)
	return t
}

func (t *transcript) write(b []byte) {
	t.stream = nil
	t.hash.Write(b)
}

func (t *transcript) header(tag byte, n int) {
	t.write(binary.LittleEndian.AppendUint64([]byte{tag}, uint64(n)))
}

// bytes writes a string of bytes.
func (t *transcript) bytes(b []byte) {
	t.header(tagBytes, len(b))
	t.write(b)
}

// zeros writes a string of n zero bytes.
func (t *transcript) zeros(n int) {
	t.header(tagBytes, n)
	var chunk [4096]byte
	for ; n > 0; n -= len(chunk) {
		t.write(chunk[:min(n, len(chunk))])
	}
}

// writeElement writes one element, in its encoding or as an element.
func writeElement[E element[E]](t *transcript, f *field[E], e E) {
	b := make([]byte, 1+f.size)
	b[0] = tagElement
	f.encode(b[1:], e)
	t.write(b)
}

// writeElements writes an array.
func writeElements[E element[E]](t *transcript, f *field[E], elements []E) {
	t.header(tagArray, len(elements))
	b := make([]byte, f.size)
	for _, e := range elements {
		f.encode(b, e)
		t.write(b)
	}
}

// random fills b with the next bytes of the stream.
func (t *transcript) random(b []byte) {
	if t.stream == nil {
		// A hash of crypto/sha256 can always be summed up without ending it, and its size is a key's.
		stream, err := aes.NewCipher(t.hash.Sum(nil))
		if err != nil {
			panic(err)
		}
		t.stream, t.next, t.unread = stream, 0, 0
	}
	for i := range b {
		if t.unread == 0 {
			var counter [aes.BlockSize]byte
			binary.LittleEndian.PutUint64(counter[:], t.next)
			t.stream.Encrypt(t.block[:], counter[:])
			t.next++
			t.unread = len(t.block)
		}
		b[i] = t.block[len(t.block)-t.unread]
		t.unread--
	}
}

// below returns a random number that is less than n. n is at least 1 and less than 2^32.
func (t *transcript) below(n int) int {
	size, mask := 0, 0
	for m := n; m != 0; m >>= 8 {
		size++
	}
	for n&mask != n {
		mask = mask<<1 | 1
	}
	var b [8]byte
	for {
		t.random(b[:size])
		if r := int(binary.LittleEndian.Uint64(b[:])) & mask; r < n {
			return r
		}
	}
}

// choose returns k different numbers that are less than n.
func (t *transcript) choose(n, k int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	for i := range k {
		j := i + t.below(n-i)
		all[i], all[j] = all[j], all[i]
	}
	return all[:k]
}

func sampleAll[E element[E]](t *transcript, f *field[E], n int) []E {
	e := make([]E, n)
	for i := range e {
		e[i] = f.sample(t)
	}
	return e
}
