package present

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// mostLines is how many holders, and how many waiters, are listed one by one.
const mostLines = 50

// about says what a kind is.
var about = map[survey.Kind]string{
	survey.Mutex:     "mutex",
	survey.Fair:      "fair mutex",
	survey.RW:        "read-write lock",
	survey.Permits:   "semaphore, permits with leases",
	survey.Semaphore: "semaphore, permits without leases",
	survey.Latch:     "latch",
	survey.Number:    "number",
}

// About says in words what kind of lock it is. The count of a latch is above zero.
func About(l survey.Lock) string {
	switch {
	case l.Kind == survey.Number && l.Ours && l.Count > 0:
		return "semaphore or latch"
	case l.Kind == survey.Number && l.Ours:
		return "semaphore"
	}
	return about[l.Kind]
}

// titles is how wide the titles of the details are.
const titles = 9

// Details are the lines that say all that is known of a lock, of at most so many columns, but for a word that is wider;
// 0: of any length. A text from Redis has 200 columns at most.
func Details(l survey.Lock, width int) []string {
	d := details{width: width}
	d.add("name", Cut(l.Name))
	d.add("kind", About(l))
	d.addState(l)
	for i, h := range l.Holders[:min(len(l.Holders), mostLines)] {
		d.addHolder(h, l, i == 0)
	}
	if more := l.HolderCount - min(len(l.Holders), mostLines); more > 0 && len(l.Holders) > 0 {
		d.add("", fmt.Sprintf("and %d more", more))
	}
	d.addWaiters(l)
	if l.Token > 0 {
		d.add("token", strconv.FormatInt(l.Token, 10))
	}
	if said := Expiry(l); said != "" {
		d.add("key", said)
	}
	return d.lines
}

// Expiry says when the key of a lock expires; empty if it is not known.
func Expiry(l survey.Lock) string {
	switch {
	case l.TTL == holdfast.NoExpiry:
		return "does not expire"
	case l.TTL <= 0:
		return ""
	case len(l.Holders) == 1 && protocol.Kept(l.Holders[0].Owner):
		return "expires in " + Span(l.TTL)
	}
	return "expires in " + Span(l.TTL) + " unless renewed"
}

type details struct {
	lines []string
	width int
}

func (d *details) add(title, said string) {
	if d.width <= 0 {
		d.lines = append(d.lines, pad(title, titles)+said)
		return
	}
	d.lines = append(d.lines, text.Wrap(said, pad(title, titles), d.width)...)
}

func (d *details) addState(l survey.Lock) {
	switch l.Kind {
	case survey.Permits, survey.Semaphore:
		d.add("state", PermitsOf(l))
	case survey.Latch:
		if l.State == survey.Open {
			d.add("state", "open: its count is zero")
		} else {
			d.add("state", fmt.Sprintf("closed: %d to go", l.Count))
		}
	case survey.Number:
		d.add("value", strconv.FormatInt(l.Count, 10))
		state := "not known: it may be a semaphore, with leases or without"
		if l.Count > 0 {
			state += ", or a latch"
		}
		if !l.Ours {
			state += ", or no lock at all"
		}
		d.add("state", state)
	case survey.RW:
		d.add("state", map[string]string{"": "free", survey.Reads: "held for reading", survey.Writes: "held for writing"}[l.Mode])
	default:
		d.add("state", string(l.State))
	}
}

// PermitsOf says how many permits of a semaphore there are; empty if it is another kind.
func PermitsOf(l survey.Lock) string {
	switch l.Kind {
	case survey.Permits:
		return fmt.Sprintf("%d of %d permits are held, %d available", l.Taken, l.Total, l.Available)
	case survey.Semaphore:
		return text.Count(l.Available, "permit") + " available; Redis does not say who has the others"
	default:
		return ""
	}
}

func (d *details) addHolder(h survey.Holder, l survey.Lock, first bool) {
	title := ""
	if first {
		title = "held by"
	}
	if protocol.Kept(h.Owner) {
		title = "kept by"
	}
	d.add(title, Who(h.Who, h.Owner))
	if !h.Who.IsZero() {
		d.add("", Cut(h.Owner))
	}
	d.add("", HoldOf(h, l))
}

// HoldOf says how and for how long one holds a lock.
func HoldOf(h survey.Holder, l survey.Lock) string {
	var parts []string
	if h.Mode != "" {
		parts = append(parts, map[string]string{survey.Reads: "reads", survey.Writes: "writes"}[h.Mode])
	}
	if held := l.HeldFor(h); held > 0 {
		parts = append(parts, "for "+Span(held))
	}
	parts = append(parts, Remaining(h.Owner, h.TTL))
	if h.Count > 1 {
		parts = append(parts, fmt.Sprintf("%d times", h.Count))
	}
	return strings.Join(parts, ", ")
}

// WhatFor says what a waiter waits for, or that it may wait no more; empty: there is nothing to say.
func WhatFor(w survey.Waiter) string {
	switch {
	case w.Silent:
		return "not heard of"
	case w.Wants > 0:
		return "for " + text.Count(w.Wants, "permit")
	case w.Mode == survey.Writes:
		return "to write"
	case w.Mode == survey.Reads:
		return "to read"
	}
	return ""
}

func (d *details) addWaiters(l survey.Lock) {
	if l.Waiting == 0 && len(l.Waiters) == 0 {
		return
	}
	said := strconv.Itoa(l.Waiting)
	switch {
	case l.Line > 0 && l.Waiting > l.Line:
		said = fmt.Sprintf("%d in line, and %d more listen", l.Line, l.Waiting-l.Line)
	case l.Line > 0:
		said += " in line"
	case l.Waiting == 1:
		said += " process listens"
	default:
		said += " processes listen"
	}
	d.add("waiting", said)
	for i, w := range l.Waiters[:min(len(l.Waiters), mostLines)] {
		said := fmt.Sprintf("%d. %s", i+1, Who(w.Who, w.Owner))
		if what := WhatFor(w); what != "" {
			said += ", " + what
		}
		if !w.Since.IsZero() && !w.Silent {
			said += ", has waited " + Span(l.WaitedFor(w))
		}
		d.add("", said)
	}
	if more := l.Line - mostLines; more > 0 && len(l.Waiters) > mostLines {
		d.add("", fmt.Sprintf("and %d more", more))
	}
}
