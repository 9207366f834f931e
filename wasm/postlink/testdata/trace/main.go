// This program prints the stack of a panic that passes a function of the standard library, and a table from
// the data of the program.
package main

import (
	"fmt"
	"runtime/debug"
	"slices"
	"unicode"
)

func main() {
	fmt.Println(unicode.IsUpper('Ä'), unicode.In('ж', unicode.Cyrillic), unicode.IsPunct('。'))
	defer func() { fmt.Printf("%v\n%s", recover(), debug.Stack()) }()
	slices.SortFunc([]int{2, 1}, compare)
}

func compare(a, b int) int {
	var none []int
	return none[a+b]
}
