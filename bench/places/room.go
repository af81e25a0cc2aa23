package places

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Room is what a lock protects. It counts the visits during which somebody was in it
// who should not have been, and how the lock has changed hands. It has no pointers: it
// may lie in a file that several processes map.
type Room struct {
	inside   atomic.Int64 // readers, and writers times aWriter
	Overlaps atomic.Int64
	Visits   atomic.Int64 // that nobody else may share
	waiting  atomic.Int64 // those who want to get in

	// How the last visitor left.
	last   atomic.Int64 // who it was; 0: there was none
	leftAt atomic.Int64 // by the clock
	wanted atomic.Int64 // 1 if somebody waited then

	handOvers     atomic.Int64 // to somebody else than the one before
	handOverNanos atomic.Int64 // of all together, from leaving to entering
	LongestFree   atomic.Int64 // how long nobody was inside though somebody waited, ns
}

// aWriter is what one who excludes all others adds to a room's inside.
const aWriter = 1 << 32

// A Visitor is a goroutine that goes in and out of a room.
type Visitor struct {
	Room   *Room
	Shared bool // others come as well
	Turns  bool // nobody but writers comes, so it is known how long the lock was free
	Hold   time.Duration
	// Who tells those apart between whom the lock is handed over: goroutines, or
	// processes. It is above zero.
	Who int64

	waits     bool // it has said so
	EnteredAt time.Time
	HandOvers []time.Duration // to this one, from somebody else
}

// Wait says that the visitor is about to ask for the lock.
func (v *Visitor) Wait() {
	if v.Shared {
		v.waits = true
		v.Room.waiting.Add(1)
	}
}

// GiveUp says that the visitor waits no more, if it still does.
func (v *Visitor) GiveUp() {
	if v.waits {
		v.waits = false
		v.Room.waiting.Add(-1)
	}
}

// Write is a visit that nobody else may share.
func (v *Visitor) Write() {
	r := v.Room
	if r.inside.Add(aWriter) != aWriter {
		r.Overlaps.Add(1)
	}
	if !v.Shared {
		r.inside.Add(-aWriter)
		return
	}
	v.GiveUp()
	v.EnteredAt = time.Now()
	r.Visits.Add(1)
	if last := r.last.Load(); last != 0 && v.Turns {
		v.enter(last, ticks(v.EnteredAt)-r.leftAt.Load())
	}
	v.stay()
	r.last.Store(v.Who)
	r.wanted.Store(min(1, r.waiting.Load()))
	r.leftAt.Store(ticks(time.Now()))
	r.inside.Add(-aWriter)
}

// enter notes for how long the lock was free.
func (v *Visitor) enter(last, free int64) {
	r := v.Room
	if r.wanted.Load() == 1 && free > r.LongestFree.Load() {
		r.LongestFree.Store(free) // nobody else does so at the same time, if the lock is one
	}
	if last != v.Who {
		r.handOvers.Add(1)
		r.handOverNanos.Add(free)
		v.HandOvers = append(v.HandOvers, time.Duration(free))
	}
}

// Read is a visit that other readers may share.
func (v *Visitor) Read() {
	r := v.Room
	if r.inside.Add(1) >= aWriter {
		r.Overlaps.Add(1)
	}
	v.GiveUp()
	v.EnteredAt = time.Now()
	v.stay()
	r.inside.Add(-1)
}

// stay gives whoever should not be let in the time to come in.
func (v *Visitor) stay() {
	if v.Hold > 0 {
		time.Sleep(v.Hold)
		return
	}
	runtime.Gosched()
}

// OthersTurn reports whether somebody else has got in since the visitor left.
func (v *Visitor) OthersTurn() bool {
	return v.Room.last.Load() != v.Who || v.Room.inside.Load() != 0
}

// RoomReading is what a room has counted up to a moment.
type RoomReading struct {
	Visits, HandOvers, Overlaps int64
	HandOverTotal, LongestFree  time.Duration
}

// Reading is what it has counted so far.
func (r *Room) Reading() RoomReading {
	return RoomReading{
		Visits: r.Visits.Load(), HandOvers: r.handOvers.Load(), Overlaps: r.Overlaps.Load(),
		HandOverTotal: time.Duration(r.handOverNanos.Load()), LongestFree: time.Duration(r.LongestFree.Load()),
	}
}

// Since is what it has counted between two moments. The longest time is of all.
func (r RoomReading) Since(before RoomReading) RoomReading {
	r.Visits -= before.Visits
	r.HandOvers -= before.HandOvers
	r.HandOverTotal -= before.HandOverTotal
	return r
}

// NewRoomFile makes a file with an empty room in it.
func NewRoomFile(name string) error {
	if errClock != nil {
		return errClock // moments of two processes could not be compared
	}
	file, err := os.Create(name) //nolint:gosec // our own directory
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(int64(unsafe.Sizeof(Room{}))), file.Close())
}

// OpenRoom maps the room in a file. Everybody who has done so is in the same room. It
// must not be used after close.
func OpenRoom(name string) (r *Room, closeRoom func() error, err error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0) //nolint:gosec // our own directory
	if err != nil {
		return nil, nil, err
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(unsafe.Sizeof(Room{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err := errors.Join(err, file.Close()); err != nil { // the mapping stays
		return nil, nil, err
	}
	return (*Room)(unsafe.Pointer(&memory[0])), func() error { return unix.Munmap(memory) }, nil //nolint:gosec // a page is aligned, and a room has no pointers
}

// The clock of a room: it is the same in all processes, and nobody sets it.
var clockBegan, clockAt, errClock = startClock()

// startClock returns a moment, and what the system's monotonic clock said at it, in ns.
func startClock() (time.Time, int64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Now(), now.Nano(), err
}

// ticks is a moment by the clock, in ns.
func ticks(t time.Time) int64 { return clockAt + int64(t.Sub(clockBegan)) }
