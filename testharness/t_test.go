package testharness_test

import (
	"fmt"
	"testing"
)

// exampleT is a testing.TB for examples, which have no *testing.T. A failure panics.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func newT() *exampleT { return &exampleT{} }

// end does what the end of a test does.
func (t *exampleT) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Failed() bool                      { return false }
func (t *exampleT) Logf(string, ...any)               {}
func (t *exampleT) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
