package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

const (
	readers, writers = 4, 2
	readAndWritten   = 3500 * time.Millisecond
	// standsBack is how long one is watched who must not get in.
	standsBack = 500 * time.Millisecond
)

var rwShow = Show{
	Name:  "rw",
	Also:  []string{"read", "write"},
	About: "readers together, a writer alone, one that goes on reading",
	intro: "A read-write lock there is one hash, with its mode and who holds it. Each read hold has a key beside it that expires with it.",
	scenes: []scene{
		{"Readers together, a writer alone", (*show).readersAndWriters},
		{"A writer goes on reading", (*show).downgrade},
	},
}

// readersAndWriters lets both want one lock.
func (s *show) readersAndWriters(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("%d readers and %d writers want one lock, each with a client of its own. The writers go first "+
		"(WritersFirst): readers who come while one waits stand back, so that a stream of readers cannot keep it out for ever.",
		readers, writers))
	name := s.rwKey("rw")
	a := &arena{length: readAndWritten, tally: func(a *arena) string { return fmt.Sprintf("at most %d at once", most(a.soFar())) }}
	for i := range readers {
		a.actors = append(a.actors, actor{
			name: fmt.Sprintf("reader %d", i+1), short: fmt.Sprintf("r%d", i+1),
			lock: func(c *holdfast.Client) holdfast.Locker { return c.NewRWMutex(name).RLocker() },
			stay: between{150, 300}, rest: between{100, 300},
		})
	}
	for i := range writers {
		a.actors = append(a.actors, actor{
			name: fmt.Sprintf("writer %d", i+1), short: fmt.Sprintf("w%d", i+1),
			lock: func(c *holdfast.Client) holdfast.Locker { return c.NewRWMutex(name, holdfast.WritersFirst()) },
			stay: between{80, 150}, rest: between{400, 600},
		})
	}
	if err := s.enact(ctx, a); err != nil {
		return err
	}
	return s.judgeReadersAndWriters(a)
}

// rwKey names the lock of a scene, and minds the key that holdfast has beside it.
func (s *show) rwKey(name string) string {
	key := s.key(name)
	s.keys = append(s.keys, protocol.ReservationKey(key))
	return key
}

// soFar are the stays, with now as the end of those that last. mu is held.
func (a *arena) soFar() []span {
	spans := slices.Clone(a.spans)
	for i := range spans {
		if spans[i].end.IsZero() {
			spans[i].end = time.Now()
		}
	}
	return spans
}

func (s *show) judgeReadersAndWriters(a *arena) error {
	writes := func(i int) bool { return i >= readers }
	reads := slices.DeleteFunc(slices.Clone(a.spans), func(sp span) bool { return writes(sp.actor) })
	together, written, clashing := most(reads), len(a.spans)-len(reads), clashes(a.spans, writes)
	s.Stage.Point(fmt.Sprintf("%d stays of readers, up to %d at the same time; %d stays of writers, of which %d overlap with anybody's.",
		len(reads), together, written, clashing))
	s.measuredf("Read-write: up to %d readers at once, %d writes, %d overlaps with a write.", together, written, clashing)
	switch {
	case clashing > 0:
		return fmt.Errorf("%d pairs of stays with a writer overlap", clashing)
	case together < 2:
		return errors.New("readers were never together")
	case written == 0:
		return errors.New("nobody could write")
	}
	return nil
}

// downgrade turns a write hold into a read hold, so that nobody can write in
// between.
func (s *show) downgrade(ctx context.Context) error {
	s.Stage.Say("An owner that has written wants to read what it wrote, and let others read it, too. It takes the lock for reading as well, and " +
		"then unlocks its write hold: it has never been without the lock, so nobody can have written in between. A reader and another writer " +
		"stand by. This is what HGETALL answers:")
	client, done, err := s.client(nil)
	if err != nil {
		return err
	}
	defer done()
	other, over, err := s.client(nil)
	if err != nil {
		return err
	}
	defer over()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lock := client.NewRWMutex(s.rwKey("downgrade"))
	write, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	owner := write.Owner()
	if err := s.expectHash(ctx, lock.Name(), "Write lock", writing(owner)); err != nil {
		return err
	}
	reader, writer := make(chan taken, 1), make(chan taken, 1)
	go func() { reader <- take(ctx, other.NewRWMutex(lock.Name()).RLocker()) }()
	go func() { writer <- take(ctx, other.NewRWMutex(lock.Name())) }()
	if err := s.nobody(ctx, "the other reader and the other writer wait", reader, writer); err != nil {
		return err
	}
	read, err := lock.RLocker().Lock(holdfast.WithOwner(ctx, owner))
	if err != nil {
		return err
	}
	both := writing(owner)
	both[owner.String()] = "1"
	if err := s.expectHash(ctx, lock.Name(), "Read lock", both); err != nil {
		return err
	}
	released := time.Now()
	if err := write.Unlock(); err != nil {
		return err
	}
	return s.readOn(ctx, lock, read, released, reader, writer)
}

// readOn is the rest, after the write hold was given back.
func (s *show) readOn(ctx context.Context, lock *holdfast.RWMutex, read *holdfast.Hold, released time.Time, reader, writer chan taken) error {
	joined := <-reader
	if joined.err != nil {
		return joined.err
	}
	reading := map[string]string{"mode": "read", read.Owner().String(): "1", joined.hold.Owner().String(): "1"}
	if err := s.expectHash(ctx, lock.Name(), "Write unlock", reading); err != nil {
		return err
	}
	after := joined.at.Sub(released)
	s.Stage.Point(fmt.Sprintf("The other reader is in, %s after the write hold went. The other writer is not.", millis(after)))
	if err := s.nobody(ctx, "it waits", writer); err != nil {
		return err
	}
	if err := errors.Join(read.Unlock(), joined.hold.Unlock()); err != nil {
		return err
	}
	left := time.Now()
	next := <-writer
	if next.err != nil {
		return next.err
	}
	if err := s.expectHash(ctx, lock.Name(), "Read unlocks", writing(next.hold.Owner())); err != nil {
		return err
	}
	s.Stage.Point(fmt.Sprintf("Both readers have left, and %s later the writer is in.", millis(max(0, next.at.Sub(left)))))
	s.measuredf("Downgrade: a reader joined %s after the write hold went; the writer stood back until both had left.", millis(after))
	return next.hold.Unlock()
}

// writing is what stands in Redis while an owner writes.
func writing(owner holdfast.Owner) map[string]string {
	return map[string]string{"mode": "write", protocol.WriterField(owner.String()): "1"}
}

// nobody makes sure for a while that none of those who wait gets in.
func (s *show) nobody(ctx context.Context, words string, waiters ...chan taken) error {
	if err := pause(ctx, standsBack); err != nil {
		return err
	}
	for _, w := range waiters {
		select {
		case t := <-w:
			return errors.Join(errors.New("somebody got the lock who must not be beside its holder"), t.err)
		default:
		}
	}
	s.Stage.Point(fmt.Sprintf("%s later, %s.", millis(standsBack), words))
	return nil
}

// expectHash reads a hash, shows it, and checks it.
func (s *show) expectHash(ctx context.Context, key, after string, want map[string]string) error {
	hash, err := s.rdb.HGetAll(ctx, key).Result()
	if err != nil {
		return err
	}
	var fields []string
	for _, field := range slices.Sorted(maps.Keys(hash)) {
		fields = append(fields, fmt.Sprintf("%s -> %s", field, hash[field]))
	}
	s.Stage.Point(fmt.Sprintf("%s: %s", after, strings.Join(fields, ", ")))
	if !maps.Equal(hash, want) {
		return fmt.Errorf("after %q the hash should be %v, but is %v", after, want, hash)
	}
	return nil
}
