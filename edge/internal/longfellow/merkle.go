package longfellow

import "crypto/sha256"

type digest = [sha256.Size]byte

// merkleRoot returns the root of the tree over n leaves, given the opened ones. The nodes are
// numbered like a heap: 1 is the root, the children of i are 2i and 2i+1, and leaf l is n+l. path has the
// siblings that cannot be computed, by descending parent. It reports false unless it needs all of path.
func merkleRoot(n int, leaves map[int]digest, path []digest) (digest, bool) {
	known := make(map[int]digest, 16*len(leaves))
	level := make([]bool, 2*n)
	for l, d := range leaves {
		if l < 0 || l >= n {
			return digest{}, false
		}
		known[n+l], level[n+l] = d, true
	}
	for i := n - 1; i > 0; i-- {
		left, right := level[2*i], level[2*i+1]
		if !left && !right {
			continue
		}
		level[i] = true
		var pair [2 * sha256.Size]byte
		for side, open := range [2]bool{left, right} {
			d := known[2*i+side]
			if !open {
				if len(path) == 0 {
					return digest{}, false
				}
				d, path = path[0], path[1:]
			}
			copy(pair[side*sha256.Size:], d[:])
		}
		known[i] = sha256.Sum256(pair[:])
	}
	root, open := known[1]
	return root, open && len(path) == 0
}
