package demo

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

const fencedLease = 1500 * time.Millisecond

// tooEarly is also what it means if the next one has the lock too early.
const tooEarly = "the key was gone before its lease had run out"

var fencedShow = Show{
	Name:  "fenced",
	About: "a late write is rejected by a store that checks tokens",
	intro: "A fenced mutex there is the same key as a mutex, and beside it one with the last fencing token.",
	scenes: []scene{
		{"A write that comes too late", (*show).lateWrite},
		{"Tokens grow, whatever happens", (*show).growing},
	},
}

// store is a resource that is written to.
type store struct {
	checks bool // it looks at tokens
	token  int64
	row    string
}

func (r *store) write(token int64, row string) error {
	if r.checks && token < r.token {
		return fmt.Errorf("token %d is older than %d", token, r.token)
	}
	r.token, r.row = token, row
	return nil
}

// fenced names the lock of a scene, and minds the key of its tokens.
func (s *show) fenced(name string) string {
	key := s.key(name)
	s.lasting = append(s.lasting, protocol.TokenKey(key))
	return key
}

// lateWrite sends a write that is still on its way when the next owner has the
// lock.
func (s *show) lateWrite() {
	s.sayf("No lock can call back what its holder has sent. A has the lock, with a lease of %s that nobody renews, and "+
		"sends a write to a store. The demo holds it up on its way until B has got the lock and has written. There are two "+
		"stores: one that remembers the greatest token that it has seen, and rejects smaller ones, and one that does not look.",
		seconds(fencedLease))
	name := s.fenced("fenced")
	first := must(s.client().NewMutex(name, holdfast.Fenced()).Lock(s.ctx, holdfast.FixedLease(fencedLease)))
	got := s.take(s.ctx, s.client().NewMutex(name, holdfast.Fenced()))
	sent := time.Now()
	s.pointf("A has the lock, with token %d. It sends \"A was here\", which is held up.", first.Token())
	second := s.outlive(first, got)
	s.pointf("A's lease has run out. B has the lock, with token %d, and writes \"B was here\".", second.Token())
	careful, careless := &store{checks: true}, &store{}
	check(careful.write(second.Token(), "B was here"))
	check(careless.write(second.Token(), "B was here"))
	s.pointf("A's write arrives, %s after it was sent.", seconds(time.Since(sent)))
	rejected := careful.write(first.Token(), "A was here")
	check(careless.write(first.Token(), "A was here"))
	check(second.Unlock())
	promise(rejected != nil && second.Token() > first.Token(),
		"a write with token %d was accepted after one with token %d", first.Token(), second.Token())
	s.pointf("The store that checks rejects it: %v. It has %q.", rejected, careful.row)
	s.pointf("The store that does not look has %q: B's write is lost, and nobody was told.", careless.row)
	s.measuredf("Fencing: the late write was rejected, because its token was %d less.", second.Token()-first.Token())
	err := first.Unlock()
	promise(errors.Is(err, holdfast.ErrLost), "the first hold was not lost: %w", err)
}

// outlive waits until the next one has the lock, and the first one knows that.
func (s *show) outlive(first *holdfast.Hold, got <-chan taken) *holdfast.Hold {
	next := until(s, got, func() {
		ttl := s.pttl(first.Name())
		promise(ttl > 0 || time.Now().After(first.Deadline()), tooEarly)
		words := "A holds, B waits"
		if first.Context().Err() != nil {
			words = "A knows that it has lost it, B waits"
		}
		s.liveTTL("PTTL", ttl, fencedLease, words)
	})
	s.Stage.keep()
	check(next.err)
	promise(next.at.After(first.Deadline()), tooEarly)
	s.expectLost(first, late)
	return next.hold
}

// growing takes a lock several times, and loses its token in between.
func (s *show) growing() {
	s.sayf("A failover can lose the key with the last token. A counter would then start again, and tokens that were " +
		"given before would come again. These follow the server's time in microseconds, so they grow even then:")
	name := s.fenced("tokens")
	last := int64(0)
	for i := range 5 {
		if i == 3 {
			check(s.rdb.Del(s.ctx, protocol.TokenKey(name)).Err())
			s.pointf("The key with the last token is deleted, as a failover may lose it.")
		}
		hold := must(s.client().NewMutex(name, holdfast.Fenced()).Lock(s.ctx))
		token := hold.Token()
		stands := must(s.rdb.Get(s.ctx, protocol.TokenKey(name)).Result())
		check(hold.Unlock())
		promise(stands == strconv.FormatInt(token, 10), "the token is %d, but in Redis it is %s", token, stands)
		s.pointf("Lock: token %d", token)
		promise(token > last, "the token %d is not greater than %d", token, last)
		last = token
	}
	s.measuredf("Tokens: 5 of 5 were greater than the one before, also after their key was lost.")
}
