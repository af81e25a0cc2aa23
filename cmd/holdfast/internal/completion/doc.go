// Package completion writes what a shell needs to complete the command line of the tool. It
// comes from the grammar, so it has every command and flag that there is; the scripts do not run
// the tool.
package completion
