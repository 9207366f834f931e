//go:build !purego

#include "textflag.h"

// MUL sets X0 to X0 * Y, with X1 to X4 for its own use, and 0x87 in X15.
// The product has 256 bits: X2 is its upper half and X0 its lower half, after the middle, X1, is added to
// both. x^128 is 0x87, so the two upper words are multiplied by it, the highest first.
#define MUL(Y) \
	MOVO X0, X1 \
	MOVO X0, X2 \
	MOVO X0, X3 \
	PCLMULQDQ $0x01, Y, X1 \
	PCLMULQDQ $0x10, Y, X3 \
	PCLMULQDQ $0x11, Y, X2 \
	PCLMULQDQ $0x00, Y, X0 \
	PXOR X3, X1 \
	MOVO X1, X4 \
	PSLLDQ $8, X1 \
	PSRLDQ $8, X4 \
	PXOR X1, X0 \
	PXOR X4, X2 \
	MOVO X2, X3 \
	PCLMULQDQ $0x01, X15, X3 \
	MOVO X3, X4 \
	PSRLDQ $8, X3 \
	PSLLDQ $8, X4 \
	PXOR X3, X2 \
	PXOR X4, X0 \
	PCLMULQDQ $0x00, X15, X2 \
	PXOR X2, X0

#define CONSTANT \
	MOVQ $0x87, AX \
	MOVQ AX, X15

// func mulFast(a, b gf) gf
TEXT ·mulFast(SB), NOSPLIT, $0-48
	CONSTANT
	MOVQ a_lo+0(FP), X0
	MOVHPS a_hi+8(FP), X0
	MOVQ b_lo+16(FP), X5
	MOVHPS b_hi+24(FP), X5
	MUL(X5)
	MOVQ X0, ret_lo+32(FP)
	MOVHPS X0, ret_hi+40(FP)
	RET

// func scaleFast(dst, src *gf, n int, by gf)
TEXT ·scaleFast(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ by_lo+24(FP), X5
	MOVHPS by_hi+32(FP), X5
	CONSTANT
	TESTQ CX, CX
	JZ   done
loop:
	MOVOU (SI), X0
	MUL(X5)
	MOVOU X0, (DI)
	ADDQ $16, SI
	ADDQ $16, DI
	DECQ CX
	JNZ  loop
done:
	RET

// func foldFast(a, b *gf, n int, by gf)
TEXT ·foldFast(SB), NOSPLIT, $0-40
	MOVQ a+0(FP), DI
	MOVQ b+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ by_lo+24(FP), X5
	MOVHPS by_hi+32(FP), X5
	CONSTANT
	TESTQ CX, CX
	JZ   done
loop:
	MOVOU (SI), X0
	MUL(X5)
	MOVOU (DI), X6
	PXOR X6, X0
	MOVOU X0, (DI)
	ADDQ $16, SI
	ADDQ $16, DI
	DECQ CX
	JNZ  loop
done:
	RET
