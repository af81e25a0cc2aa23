// Package cli is the command line: its grammar, its help and its exit codes. It
// hands the work on to the packages beside it.
package cli
