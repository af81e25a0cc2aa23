package demo

import (
	"slices"
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
	intro: "A read-write lock there is one hash, with its mode and who holds it. Each read hold has a key beside it that " +
		"expires with it.",
	scenes: []scene{
		{"Readers together, a writer alone", (*show).readersAndWriters},
		{"A writer goes on reading", (*show).downgrade},
	},
}

// readersAndWriters lets both want one lock.
func (s *show) readersAndWriters() {
	s.sayf("%d readers and %d writers want one lock, each with a client of its own. The writers go first "+
		"(WritersFirst): readers who come while one waits stand back, so that a stream of readers cannot keep it out for ever.",
		readers, writers)
	name := s.key("rw")
	a := &arena{length: readAndWritten, together: true}
	s.enter(a, readers, actor{name: "reader", short: "r", stay: between{150, 300}, rest: between{100, 300}},
		func(c *holdfast.Client, _ int) holdfast.Locker { return c.NewRWMutex(name).RLocker() })
	s.enter(a, writers, actor{name: "writer", short: "w", stay: between{80, 150}, rest: between{400, 600}},
		func(c *holdfast.Client, _ int) holdfast.Locker { return c.NewRWMutex(name, holdfast.WritersFirst()) })
	s.enact(a)
	writes := func(i int) bool { return i >= readers }
	reads := slices.DeleteFunc(slices.Clone(a.spans), func(sp span) bool { return writes(sp.actor) })
	together, written, clashing := most(reads), len(a.spans)-len(reads), clashes(a.spans, writes)
	s.pointf("%d stays of readers, up to %d at the same time; %d stays of writers, of which %d overlap with anybody's.",
		len(reads), together, written, clashing)
	s.measuredf("Read-write: up to %d readers at once, %d writes, %d overlaps with a write.", together, written, clashing)
	promise(clashing == 0, "%d pairs of stays with a writer overlap", clashing)
	promise(together >= 2, "readers were never together")
	promise(written > 0, "nobody could write")
}

// downgrade turns a write hold into a read hold, so that nobody can write in
// between.
func (s *show) downgrade() {
	s.sayf("An owner that has written wants to read what it wrote, and let others read it, too. It takes the lock for " +
		"reading as well, and then unlocks its write hold: it has never been without the lock, so nobody can have written in " +
		"between. A reader and another writer stand by. This is what HGETALL answers:")
	lock, other := s.client().NewRWMutex(s.key("downgrade")), s.client()
	write := must(lock.Lock(s.ctx))
	owner := write.Owner()
	s.expectHash(lock.Name(), "Write lock", writing(owner))
	reader := s.take(s.ctx, other.NewRWMutex(lock.Name()).RLocker())
	writer := s.take(s.ctx, other.NewRWMutex(lock.Name()))
	s.standBack("the other reader and the other writer wait", reader, writer)
	read := must(lock.RLocker().Lock(holdfast.WithOwner(s.ctx, owner)))
	both := writing(owner)
	both[owner.String()] = "1"
	s.expectHash(lock.Name(), "Read lock", both)
	released := time.Now()
	check(write.Unlock())
	joined := <-reader
	check(joined.err)
	s.expectHash(lock.Name(), "Write unlock",
		map[string]string{"mode": "read", owner.String(): "1", joined.hold.Owner().String(): "1"})
	after := millis(joined.at.Sub(released))
	s.pointf("The other reader is in, %s after the write hold went. The other writer is not.", after)
	s.standBack("it waits", writer)
	check(read.Unlock())
	check(joined.hold.Unlock())
	left := time.Now()
	next := <-writer
	check(next.err)
	s.expectHash(lock.Name(), "Read unlocks", writing(next.hold.Owner()))
	s.pointf("Both readers have left, and %s later the writer is in.", millis(max(0, next.at.Sub(left))))
	s.measuredf("Downgrade: a reader joined %s after the write hold went; the writer stood back until both had left.", after)
	check(next.hold.Unlock())
}

// writing is what stands in Redis while an owner writes.
func writing(owner holdfast.Owner) map[string]string {
	return map[string]string{"mode": "write", protocol.WriterField(owner.String()): "1"}
}

// standBack makes sure for a while that none of those who wait gets in.
func (s *show) standBack(words string, waiters ...<-chan taken) {
	s.pause(standsBack)
	nobody("somebody got the lock who must not be beside its holder", waiters...)
	s.pointf("%s later, %s.", millis(standsBack), words)
}
