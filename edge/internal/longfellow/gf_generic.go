//go:build !amd64 || purego

package longfellow

func mulGF(a, b gf) gf { return mulGeneric(a, b) }

func scaleGF(dst, src []gf, by gf) { scaleEach(dst, src, by) }

func foldGF(a, b []gf, by gf) { foldEach(a, b, by) }
