package demo

import "slices"

// Show is what the demo shows of one kind of lock.
type Show struct {
	// Name is what the reader asks for.
	Name string
	// Also is by which other names.
	Also []string
	// About is what to expect, in half a sentence.
	About string

	// Servers describes the servers that it brings itself; empty: it plays on any.
	Servers string

	intro  string // what stands in Redis
	scenes []scene
}

type scene struct {
	title string
	play  func(*show)
}

// Shows are all there are. Each is in a file of its own.
var Shows = []Show{mutexShow, fairShow, rwShow, semaphoreShow, fencedShow, multiShow, redLockShow, latchShow}

// Find returns the one of a name.
func Find(name string) (Show, bool) {
	for _, s := range Shows {
		if s.Name == name || slices.Contains(s.Also, name) {
			return s, true
		}
	}
	return Show{}, false
}

// Names are by what names they are found.
func Names() (names []string) {
	for _, s := range Shows {
		names = append(append(names, s.Name), s.Also...)
	}
	return names
}
