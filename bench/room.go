package main

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A room is what a lock protects. It counts the visits during which somebody was in it
// who should not have been, and how the lock has changed hands. It has no pointers: it
// may lie in a file that several processes map.
type room struct {
	inside   atomic.Int64 // readers, and writers times aWriter
	overlaps atomic.Int64
	visits   atomic.Int64 // that nobody else may share
	waiting  atomic.Int64 // those who want to get in

	// How the last visitor left.
	last   atomic.Int64 // who it was; 0: there was none
	leftAt atomic.Int64 // by the clock
	wanted atomic.Int64 // 1 if somebody waited then

	handOvers     atomic.Int64 // to somebody else than the one before
	handOverNanos atomic.Int64 // of all together, from leaving to entering
	longestFree   atomic.Int64 // how long nobody was inside though somebody waited, ns
}

// aWriter is what one who excludes all others adds to a room's inside.
const aWriter = 1 << 32

// A visitor is a goroutine that goes in and out of a room.
type visitor struct {
	room   *room
	shared bool // others come as well
	turns  bool // nobody but writers comes, so it is known how long the lock was free
	hold   time.Duration
	// who tells those apart between whom the lock is handed over: goroutines, or
	// processes. It is above zero.
	who int64

	waits     bool // it has said so
	enteredAt time.Time
	handOvers []time.Duration // to this one, from somebody else
}

// wait says that the visitor is about to ask for the lock.
func (v *visitor) wait() {
	if v.shared {
		v.waits = true
		v.room.waiting.Add(1)
	}
}

// giveUp says that the visitor waits no more, if it still does.
func (v *visitor) giveUp() {
	if v.waits {
		v.waits = false
		v.room.waiting.Add(-1)
	}
}

// write is a visit that nobody else may share.
func (v *visitor) write() {
	r := v.room
	if r.inside.Add(aWriter) != aWriter {
		r.overlaps.Add(1)
	}
	if !v.shared {
		r.inside.Add(-aWriter)
		return
	}
	v.giveUp()
	v.enteredAt = time.Now()
	r.visits.Add(1)
	if last := r.last.Load(); last != 0 && v.turns {
		v.enter(last, ticks(v.enteredAt)-r.leftAt.Load())
	}
	v.stay()
	r.last.Store(v.who)
	r.wanted.Store(min(1, r.waiting.Load()))
	r.leftAt.Store(ticks(time.Now()))
	r.inside.Add(-aWriter)
}

// enter notes for how long the lock was free.
func (v *visitor) enter(last, free int64) {
	r := v.room
	if r.wanted.Load() == 1 && free > r.longestFree.Load() {
		r.longestFree.Store(free) // nobody else does so at the same time, if the lock is one
	}
	if last != v.who {
		r.handOvers.Add(1)
		r.handOverNanos.Add(free)
		v.handOvers = append(v.handOvers, time.Duration(free))
	}
}

// read is a visit that other readers may share.
func (v *visitor) read() {
	r := v.room
	if r.inside.Add(1) >= aWriter {
		r.overlaps.Add(1)
	}
	v.giveUp()
	v.enteredAt = time.Now()
	v.stay()
	r.inside.Add(-1)
}

// stay gives whoever should not be let in the time to come in.
func (v *visitor) stay() {
	if v.hold > 0 {
		time.Sleep(v.hold)
		return
	}
	runtime.Gosched()
}

// othersTurn reports whether somebody else has got in since the visitor left.
func (v *visitor) othersTurn() bool {
	return v.room.last.Load() != v.who || v.room.inside.Load() != 0
}

// roomReading is what a room has counted up to a moment.
type roomReading struct {
	visits, handOvers, overlaps int64
	handOverTotal, longestFree  time.Duration
}

func (r *room) reading() roomReading {
	return roomReading{
		visits: r.visits.Load(), handOvers: r.handOvers.Load(), overlaps: r.overlaps.Load(),
		handOverTotal: time.Duration(r.handOverNanos.Load()), longestFree: time.Duration(r.longestFree.Load()),
	}
}

// since is what it has counted between two moments. The longest time is of all.
func (r roomReading) since(before roomReading) roomReading {
	r.visits -= before.visits
	r.handOvers -= before.handOvers
	r.handOverTotal -= before.handOverTotal
	return r
}

// newRoomFile makes a file with an empty room in it.
func newRoomFile(name string) error {
	if errClock != nil {
		return errClock // moments of two processes could not be compared
	}
	file, err := os.Create(name) //nolint:gosec // our own directory
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(int64(unsafe.Sizeof(room{}))), file.Close())
}

// openRoom maps the room in a file. Everybody who has done so is in the same room. It
// must not be used after close.
func openRoom(name string) (r *room, closeRoom func() error, err error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0) //nolint:gosec // our own directory
	if err != nil {
		return nil, nil, err
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(unsafe.Sizeof(room{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err := errors.Join(err, file.Close()); err != nil { // the mapping stays
		return nil, nil, err
	}
	return (*room)(unsafe.Pointer(&memory[0])), func() error { return unix.Munmap(memory) }, nil //nolint:gosec // a page is aligned, and a room has no pointers
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
