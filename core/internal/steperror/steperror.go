// Package steperror has the errors of steps that the hosted pages explain. Each is a method.ErrStep.
package steperror

import (
	"fmt"

	"github.com/verge-id/verge/core/method"
)

// ErrMediaType means that a response has another media type than the method reads.
var ErrMediaType = fmt.Errorf("%w: a type that the method does not read", method.ErrStep)

// File means that Step.File is missing, or is no picture that the method takes. Problem is a constant text,
// for logs.
type File struct {
	Rule    Rule
	Problem string
}

func (e *File) Error() string {
	return e.Unwrap().Error() + ": no picture that can be used: " + e.Problem
}

// Unwrap returns method.ErrStep.
func (e *File) Unwrap() error { return method.ErrStep }

// Rule is a rule for pictures, which the file breaks. A page has words for each.
type Rule string

// Rules for pictures (contract 37).
const (
	Missing Rule = "missing" // a form has one
	Type    Rule = "type"    // it is a JPEG, in grey or in three colours
	Damaged Rule = "damaged" // it is whole
	Large   Rule = "large"   // it has at most method.MaxFile bytes
	Small   Rule = "small"   // it has at least 256 pixels a side
	Wide    Rule = "wide"    // it has at most 4,096 pixels a side
)
