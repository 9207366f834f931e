package longfellow

import (
	"encoding/hex"
	"slices"
	"testing"
)

// TestTranscript_Specification has the test vectors of draft-google-cfrg-libzk for Fiat-Shamir. Their field
// is another one; the prime is so near to 2^256 that no sample is rejected.
func TestTranscript_Specification(t *testing.T) {
	tr := newTranscript([]byte("test"))
	samples := func(vector, first, last string) {
		t.Helper()
		var got [16]string
		for i := range got {
			b := make([]byte, 32)
			tr.random(b)
			slices.Reverse(b)
			got[i] = hex.EncodeToString(b)
		}
		if got[0] != first || got[15] != last {
			t.Errorf("%s: %s and %s", vector, got[0], got[15])
		}
	}
	element := func(n byte) []byte { return append([]byte{n}, make([]byte, 31)...) }

	count := make([]byte, 100)
	for i := range count {
		count[i] = byte(i)
	}
	tr.bytes(count)
	samples("bytes", "8b297f0bffd583c6c6b6796385d5fd20a08665733b833970ebdd1054bbbc1b14",
		"332729ab436dca654866a9382deaee0add6fb7e90a80261f1488e56598e8bc99")
	tr.write(append([]byte{tagElement}, element(7)...))
	samples("element", "609db3e9a8f548df038519fa46cef23eb8c6553d3c1f698604e60a51613a738e",
		"79251f49534f5c4b10b798b2dbf6e80a3b07593f616ce6a9617ccc61040aac78")
	tr.header(tagArray, 2)
	tr.write(append(element(8), element(9)...))
	samples("array", "ae1a921288590205fc24543303ff527476359b8db4a983b2886a133b02f3217e",
		"47dc31f6d8bc9c44290781176df3e4b95ac8793a4a42fa5859c564d92d6d5af5")

	tr.bytes([]byte("nats"))
	var numbers []int
	for _, n := range []int{1, 1, 1, 2, 2, 2, 7, 7, 7, 7, 32, 32, 32, 32, 256, 256, 256, 256,
		1000, 10000, 60000, 65535,
		100000, 100000} {
		numbers = append(numbers, tr.below(n))
	}
	if want := []int{0, 0, 0, 0, 0, 0, 3, 0, 4, 5, 10, 30, 27, 22, 100, 189, 3, 92, 999, 3105, 40886,
		51590, 56367,
		10678}; !slices.Equal(
		numbers,
		want,
	) {
		t.Errorf("numbers: %v", numbers)
	}

	// The text of the specification has "choice"; its implementation, which made the vector, has this.
	tr.bytes([]byte("choose"))
	for _, c := range []struct {
		n    int
		want []int
	}{
		{31, []int{10, 29, 30, 11, 4, 15, 16, 28, 19, 21, 25, 18, 17, 3, 5, 23, 24, 22, 6, 1}},
		{32, []int{3, 17, 18, 8, 30, 7, 14, 19, 25, 23, 12, 4, 31, 16, 0, 6, 20, 27, 11, 10}},
		{63, []int{9, 56, 61, 45, 35, 53, 51, 3, 39, 32, 31, 6, 59, 58, 54, 22, 27, 62, 55, 19}},
		{64, []int{12, 52, 39, 17, 51, 38, 58, 2, 28, 27, 46, 63, 61, 50, 40, 55, 47, 13, 56, 32}},
		{1000, []int{157, 668, 572, 138, 913, 994, 797, 249, 440, 723, 489, 241, 383, 108, 710, 341, 406,
			585, 42,
			692}},
		{65535, []int{40745, 48408, 17108, 44500, 53993, 10008, 24910, 52200, 61265, 54989, 41237, 25958,
			28697,
			61187,
			34729, 3525, 9005, 38627,
			9724, 12169}},
	} {
		if got := tr.choose(c.n, 20); !slices.Equal(got, c.want) {
			t.Errorf("20 of %d: %v", c.n, got)
		}
	}
}

// TestTranscript_Zeros checks that zeros are a string like any other.
func TestTranscript_Zeros(t *testing.T) {
	for _, n := range []int{0, 1, 4095, 4096, 4097, 10000} {
		a, b := newTranscript([]byte("a")), newTranscript([]byte("a"))
		a.zeros(n)
		b.bytes(make([]byte, n))
		var x, y [8]byte
		a.random(x[:])
		b.random(y[:])
		if x != y {
			t.Errorf("%d zeros", n)
		}
	}
}

// TestMerkleRoot_Specification has the test vector of draft-google-cfrg-libzk for Merkle trees.
func TestMerkleRoot_Specification(t *testing.T) {
	d := func(s string) digest {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return digest(b)
	}
	leaves := []digest{
		d("4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"),
		d("dbc1b4c900ffe48d575b5da5c638040125f65db0fe3e24494b76ea986457d986"),
		d("084fed08b978af4d7d196a7446a86b58009e636b611db16211b65a9aadff29c5"),
		d("e52d9c508c502347344d8c07ad91cbd6068afc75ff6292f062a09ca381c89e71"),
		d("e77b9a9ae9e30b0dbdb6f510a264ef9de781501d7b6b92ae89eb059c5ab743db"),
	}
	root := d("f22f4501ffd3bdffcecc9e4cd6828a4479aeedd6aa484eb7c1f808ccf71c6e76")
	inner := d("f03808f5b8088c61286d505e8e93aa378991d9889ae2d874433ca06acabcd493")
	opened := func(i ...int) map[int]digest {
		m := map[int]digest{}
		for _, i := range i {
			m[i] = leaves[i]
		}
		return m
	}
	for _, tt := range []struct {
		name   string
		leaves map[int]digest
		path   []digest
		want   bool
	}{
		{"leaves 0 and 1", opened(0, 1), []digest{leaves[2], inner}, true},
		{"leaves 1 and 3", opened(1, 3), []digest{leaves[4], leaves[2], leaves[0]}, true},
		{"all leaves", opened(0, 1, 2, 3, 4), nil, true},
		{"path too short", opened(0, 1), []digest{leaves[2]}, false},
		{"path too long", opened(0, 1), []digest{leaves[2], inner, inner}, false},
		{"path in another order", opened(1, 3), []digest{leaves[2], leaves[4], leaves[0]}, false},
		{"other leaf", map[int]digest{0: leaves[0], 1: leaves[2]}, []digest{leaves[2], inner}, false},
		{"leaf at another place", map[int]digest{0: leaves[1], 1: leaves[0]}, []digest{leaves[2], inner},
			false},
		{"no leaf", nil, nil, false},
		{"leaf outside of the tree", map[int]digest{5: leaves[0]}, []digest{leaves[2], inner}, false},
		{"negative leaf", map[int]digest{-1: leaves[0]}, []digest{leaves[2], inner}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := merkleRoot(5, tt.leaves, tt.path); (ok && got == root) != tt.want {
				t.Errorf("%x, %v", got, ok)
			}
		})
	}
}
