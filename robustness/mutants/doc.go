// Mutants shows that the suites notice when holdfast is broken: it has the compiler take another text for a
// file, one at a time, and runs the suite that is to catch that.
//
//	go run ./robustness/mutants            all of them
//	go run ./robustness/mutants NAME...    those
//
// It ends with status 1 if one of them is not caught. Its test fails if one does not apply to the sources
// any more. A function, or what else is broken, may move to another file or package.
package main
