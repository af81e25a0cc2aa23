// Package watch shows locks on a terminal, as they are, until the reader has had enough.
//
// It goes through Redis again and again, and never twice at once: between two scans it pauses for the interval,
// or for as long as the scan took if that is longer. While one lock's details are shown, only that one is read.
//
// The model is changed by Update alone. What asks Redis runs as a command of Bubble Tea, in a goroutine of its
// own, sees only what it was given, and answers by a message. [Run] ends their context when the program ends, and waits for
// them.
package watch
