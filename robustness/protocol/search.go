package protocol

import (
	"fmt"
	"strings"
	"time"
)

// model is a machine whose states are searched, all of them. A state is compared, so it
// has everything that matters for what can happen next, and nothing else.
type model[S comparable] interface {
	// starts are the states that it may begin in.
	starts() []S
	// steps calls take for each thing that can happen in a state: who does what, and the
	// state after it.
	steps(s S, take func(who, what string, next S))
}

// invariant is what must hold in every state.
type invariant[S comparable] struct {
	name  string
	holds func(s S) bool
}

// found is what a search has come to.
type found struct {
	states, steps int
	depth         int // of the state that is furthest from a start, or that breaks an invariant
	took          time.Duration
	broken        string   // the invariant that is broken; empty if none is
	trace         []string // how, in as few steps as possible
}

// search visits all states, nearest first, until one breaks an invariant.
func search[S comparable](m model[S], invariants ...invariant[S]) found {
	s := searcher[S]{model: m, invariants: invariants, seen: map[S]int32{}}
	return s.run()
}

// searcher is a search under way. Its states stand in the order in which they were found.
type searcher[S comparable] struct {
	model[S]

	invariants []invariant[S]
	seen       map[S]int32 // where each state stands
	states     []S
	from       []int32 // from which state each was found; -1: it is a start
	broken     string
	steps      int
}

func (s *searcher[S]) run() (f found) {
	began := time.Now()
	for _, start := range s.starts() {
		s.visit(start, -1)
	}
	last := len(s.states) // of this depth
	for i := 0; i < len(s.states) && s.broken == ""; i++ {
		if i == last {
			f.depth++
			last = len(s.states)
		}
		s.model.steps(s.states[i], func(_, _ string, next S) {
			s.steps++
			s.visit(next, int32(i))
		})
	}
	f.states, f.steps, f.broken, f.took = len(s.states), s.steps, s.broken, time.Since(began)
	if s.broken != "" {
		f.trace = s.trace()
		f.depth = len(f.trace)
	}
	return f
}

// visit notes a state, unless it is known, or one that breaks an invariant was found before.
func (s *searcher[S]) visit(state S, from int32) {
	if s.broken != "" {
		return
	}
	if _, known := s.seen[state]; known {
		return
	}
	s.seen[state] = int32(len(s.states))
	s.states = append(s.states, state)
	s.from = append(s.from, from)
	for _, must := range s.invariants {
		if !must.holds(state) {
			s.broken = must.name
			return
		}
	}
}

// trace is the way to the state that was found last.
func (s *searcher[S]) trace() []string {
	var path []int32
	for i := int32(len(s.states) - 1); i >= 0; i = s.from[i] {
		path = append([]int32{i}, path...)
	}
	var trace []string
	for i := 1; i < len(path); i++ {
		var how string
		s.model.steps(s.states[path[i-1]], func(who, what string, next S) {
			if how == "" && next == s.states[path[i]] {
				how = who + " " + what
			}
		})
		trace = append(trace, how)
	}
	return trace
}

// report says what a search has found, in one line, and the way to it if an invariant is
// broken.
func (f found) report(what string) string {
	result := "all hold"
	if f.broken != "" {
		result = "BROKEN: " + f.broken
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s; %d states, %d steps, depth %d, %v", what, result, f.states, f.steps, f.depth, f.took.Round(time.Millisecond))
	for i, step := range f.trace {
		fmt.Fprintf(&text, "\n  %2d %s", i+1, step)
	}
	return text.String()
}
