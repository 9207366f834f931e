//go:build !purego

package longfellow

import "golang.org/x/sys/cpu"

// fast reports whether the processor multiplies polynomials. All x86 servers since 2011 do.
var fast = cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE2

//go:noescape
func mulFast(a, b gf) gf

//go:noescape
func scaleFast(dst, src *gf, n int, by gf)

//go:noescape
func foldFast(a, b *gf, n int, by gf)

func mulGF(a, b gf) gf {
	if fast {
		return mulFast(a, b)
	}
	return mulGeneric(a, b)
}

func scaleGF(dst, src []gf, by gf) {
	if !fast || len(dst) == 0 {
		scaleEach(dst, src, by)
		return
	}
	scaleFast(&dst[0], &src[:len(dst)][0], len(dst), by)
}

func foldGF(a, b []gf, by gf) {
	if !fast || len(a) == 0 {
		foldEach(a, b, by)
		return
	}
	foldFast(&a[0], &b[:len(a)][0], len(a), by)
}
