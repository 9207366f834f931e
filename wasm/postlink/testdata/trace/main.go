// This program prints the stack of a panic that passes a function of the standard library and an inlined
// function, recovers in a method that is called through a wrapper, and prints a table from the data of the
// program.
package main

import (
	"fmt"
	"runtime/debug"
	"slices"
	"unicode"
)

func main() {
	fmt.Println(unicode.IsUpper('Ä'), unicode.In('ж', unicode.Cyrillic), unicode.IsPunct('。'))
	wrapped()
	defer func() { fmt.Printf("%v\n%s", recover(), debug.Stack()) }()
	slices.SortFunc([]int{2, 1}, compare)
}

func compare(a, b int) int {
	var none []int
	return inlined(none, a+b)
}

func inlined(list []int, at int) int { return list[at] }

// wrapped panics. The runtime recovers if one function between the panic and recover is not a wrapper.
func wrapped() {
	var c catcher = outer{&inner{}}
	defer c.catch()
	panic("through a wrapper")
}

type catcher interface{ catch() }

type outer struct{ *inner }

type inner struct{ caught any }

func (i *inner) catch() {
	i.caught = recover()
	fmt.Println("caught", i.caught)
}
