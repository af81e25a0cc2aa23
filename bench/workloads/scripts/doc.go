// Package scripts measures how long a server executes the two scripts of a pair, by its own figures, for holdfast's and
// for scripts that do what Redisson's do. The fastest of many short turns counts, so other programs on the machine do not.
package scripts
