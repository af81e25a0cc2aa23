package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
)

// within calls f while somebody is inside, for reading or for writing.
func within(r *room, adds int64, f func()) {
	r.inside.Add(adds)
	f()
	r.inside.Add(-adds)
}

func TestRoomSeesOverlaps(t *testing.T) {
	for _, c := range []struct {
		name   string
		inside int64
		visit  func(*visitor)
		want   int64
	}{
		{"a reader beside a reader", 1, (*visitor).read, 0},
		{"a writer beside a reader", 1, (*visitor).write, 1},
		{"a reader beside a writer", aWriter, (*visitor).read, 1},
		{"a writer beside a writer", aWriter, (*visitor).write, 1},
	} {
		r := &room{}
		v := &visitor{room: r, shared: true, who: 1}
		within(r, c.inside, func() { c.visit(v) })
		if got := r.overlaps.Load(); got != c.want {
			t.Errorf("%s: %d overlaps, want %d", c.name, got, c.want)
		}
		c.visit(v)
		if got := r.overlaps.Load(); got != c.want || r.inside.Load() != 0 {
			t.Errorf("alone after %s: %d overlaps, want %d; %d inside", c.name, got, c.want, r.inside.Load())
		}
	}
}

// The lock was free for so long, while somebody waited or not, and went to the same one
// or to another.
func TestRoomHandOvers(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := &room{}
		a, b := &visitor{room: r, shared: true, turns: true, who: 1}, &visitor{room: r, shared: true, turns: true, who: 2}
		a.write()
		time.Sleep(9 * time.Second) // nobody waits
		a.write()
		if got := r.reading(); got != (roomReading{visits: 2}) {
			t.Errorf("nobody else has come: %+v", got)
		}
		b.wait()
		a.write()
		if a.othersTurn() {
			t.Error("the other one has not been inside since")
		}
		time.Sleep(2 * time.Second)
		b.write()
		if !a.othersTurn() || b.othersTurn() {
			t.Error("the other one has been inside")
		}
		a.wait()
		a.giveUp()
		time.Sleep(5 * time.Second) // nobody waits any more
		a.write()
		want := roomReading{visits: 5, handOvers: 2, handOverTotal: 7 * time.Second, longestFree: 2 * time.Second}
		if got := r.reading(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if len(b.handOvers) != 1 || b.handOvers[0] != 2*time.Second {
			t.Errorf("hand-overs %v", b.handOvers)
		}
		if left := r.waiting.Load(); left != 0 {
			t.Errorf("%d wait for ever", left)
		}
	})
}

// Who maps the same file is in the same room.
func TestRoomIsShared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "room")
	if err := newRoomFile(file); err != nil {
		t.Fatal(err)
	}
	var rooms [2]*room
	for i := range rooms {
		r, closeRoom, err := openRoom(file)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := closeRoom(); err != nil {
				t.Error(err)
			}
		}()
		rooms[i] = r
	}
	within(rooms[0], aWriter, func() { (&visitor{room: rooms[1], shared: true, who: 2}).write() })
	if got := rooms[0].overlaps.Load(); got != 1 {
		t.Errorf("%d overlaps", got)
	}
}
