package line

import (
	"errors"
	"testing"
	"time"
)

// listening counts subscriptions.
type listening struct {
	begun, ended int
	ring         func()
}

func newLines() (*Lines, *listening) {
	l := &listening{}
	return New(func(_ string, ring func()) func() {
		l.begun++
		l.ring = ring
		return func() { l.ended++ }
	}), l
}

func isHead(p *Place) bool {
	select {
	case <-p.Head():
		return true
	default:
		return false
	}
}

func rung(p *Place) bool {
	select {
	case <-p.Bell():
		return true
	default:
		return false
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	lines, _ := newLines()
	a, b, c := lines.Enter("x", "x"), lines.Enter("x", "x"), lines.Enter("x", "x")
	other := lines.Enter("y", "y")
	if !isHead(a) || isHead(b) || isHead(c) || !isHead(other) {
		t.Fatal("the first of each line is its head, and nobody else")
	}
	b.Leave() // from the middle: nobody moves up
	if isHead(c) {
		t.Fatal("moved up past the head")
	}
	a.Leave()
	if !isHead(c) {
		t.Fatal("the head has left, and nobody moved up")
	}
}

// What one head has learnt is there for the next.
func TestKnowledgeBelongsToTheLine(t *testing.T) {
	lines, heard := newLines()
	a, b := lines.Enter("x", "x"), lines.Enter("x", "x")
	at, refusal := time.Now(), errors.New("held")
	a.Listen()
	a.AskAt(at, refusal)
	heard.ring()
	heard.ring()
	a.Leave()
	if gotAt, gotRefusal := b.Next(); !gotAt.Equal(at) || gotRefusal != refusal { //nolint:errorlint // the same one
		t.Errorf("Next = %v, %v", gotAt, gotRefusal)
	}
	if !rung(b) || rung(b) {
		t.Error("two rings that nobody heard must count as one")
	}
	b.Listen()
	if heard.begun != 1 || heard.ended != 0 {
		t.Errorf("subscribed %d times, ended %d times", heard.begun, heard.ended)
	}
	b.AskAt(at, nil)
	if _, gotRefusal := b.Next(); gotRefusal == nil {
		t.Error("the refusal was forgotten")
	}
}

// When the last one leaves, nothing stays: neither for a new line nor for one
// that is kept by a try under way.
func TestNothingStays(t *testing.T) {
	for _, tryUnderWay := range []bool{false, true} {
		lines, heard := newLines()
		a := lines.Enter("x", "x")
		a.Listen()
		a.AskAt(time.Now(), errors.New("held"))
		if tryUnderWay {
			a.Token() <- struct{}{}
			a.Taken()
		}
		heard.ring()
		a.Leave()
		if heard.ended != 1 {
			t.Error("the subscription stayed")
		}
		b := lines.Enter("x", "x")
		if at, refusal := b.Next(); !at.IsZero() || refusal != nil || rung(b) {
			t.Errorf("the next line knows %v, %v", at, refusal)
		}
		select {
		case b.Token() <- struct{}{}:
			if tryUnderWay {
				t.Error("two tries at once")
			}
			b.Taken()
			b.Done()
		default:
			if !tryUnderWay {
				t.Error("nobody tries, and the token is not there")
			}
			a.Done()
		}
		b.Leave()
		if len(lines.lines) != 0 {
			t.Errorf("%d lines left", len(lines.lines))
		}
	}
}
