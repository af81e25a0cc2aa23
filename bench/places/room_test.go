package places

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
)

// within calls f while somebody is inside, for reading or for writing.
func within(r *Room, adds int64, f func()) {
	r.inside.Add(adds)
	f()
	r.inside.Add(-adds)
}

func TestRoomSeesOverlaps(t *testing.T) {
	for _, c := range []struct {
		name   string
		inside int64
		visit  func(*Visitor)
		want   int64
	}{
		{"a reader beside a reader", 1, (*Visitor).Read, 0},
		{"a writer beside a reader", 1, (*Visitor).Write, 1},
		{"a reader beside a writer", aWriter, (*Visitor).Read, 1},
		{"a writer beside a writer", aWriter, (*Visitor).Write, 1},
	} {
		r := &Room{}
		v := &Visitor{Room: r, Shared: true, Who: 1}
		within(r, c.inside, func() { c.visit(v) })
		if got := r.Overlaps.Load(); got != c.want {
			t.Errorf("%s: %d overlaps, want %d", c.name, got, c.want)
		}
		c.visit(v)
		if got := r.Overlaps.Load(); got != c.want || r.inside.Load() != 0 {
			t.Errorf("alone after %s: %d overlaps, want %d; %d inside", c.name, got, c.want, r.inside.Load())
		}
	}
}

// The lock was free for so long, while somebody waited or not, and went to the same one
// or to another.
func TestRoomHandOvers(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := &Room{}
		a, b := &Visitor{Room: r, Shared: true, Turns: true, Who: 1}, &Visitor{Room: r, Shared: true, Turns: true, Who: 2}
		a.Write()
		time.Sleep(9 * time.Second) // nobody waits
		a.Write()
		if got := r.Reading(); got != (RoomReading{Visits: 2}) {
			t.Errorf("nobody else has come: %+v", got)
		}
		b.Wait()
		a.Write()
		if a.OthersTurn() {
			t.Error("the other one has not been inside since")
		}
		time.Sleep(2 * time.Second)
		b.Write()
		if !a.OthersTurn() || b.OthersTurn() {
			t.Error("the other one has been inside")
		}
		a.Wait()
		a.GiveUp()
		time.Sleep(5 * time.Second) // nobody waits any more
		a.Write()
		want := RoomReading{Visits: 5, HandOvers: 2, HandOverTotal: 7 * time.Second, LongestFree: 2 * time.Second}
		if got := r.Reading(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if len(b.HandOvers) != 1 || b.HandOvers[0] != 2*time.Second {
			t.Errorf("hand-overs %v", b.HandOvers)
		}
		if left := r.waiting.Load(); left != 0 {
			t.Errorf("%d wait for ever", left)
		}
	})
}

// Who maps the same file is in the same room.
func TestRoomIsShared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "room")
	if err := NewRoomFile(file); err != nil {
		t.Fatal(err)
	}
	var rooms [2]*Room
	for i := range rooms {
		r, closeRoom, err := OpenRoom(file)
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
	within(rooms[0], aWriter, func() { (&Visitor{Room: rooms[1], Shared: true, Who: 2}).Write() })
	if got := rooms[0].Overlaps.Load(); got != 1 {
		t.Errorf("%d overlaps", got)
	}
}
