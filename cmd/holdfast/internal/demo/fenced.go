package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

const fencedLease = 1500 * time.Millisecond

// errEarly is also what it means if the next one has the lock too early.
var errEarly = errors.New("the key was gone before its lease had run out")

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
	s.lastingKey(protocol.TokenKey(key))
	return key
}

// lateWrite sends a write that is still on its way when the next owner has the
// lock.
func (s *show) lateWrite(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("No lock can call back what its holder has sent. A has the lock, with a lease of %s that nobody renews, and "+
		"sends a write to a store. The demo holds it up on its way until B has got the lock and has written. There are two stores: one that "+
		"remembers the greatest token that it has seen, and rejects smaller ones, and one that does not look.", seconds(fencedLease)))
	name := s.fenced("fenced")
	a, done, err := s.client(nil)
	if err != nil {
		return err
	}
	defer done()
	b, over, err := s.client(nil)
	if err != nil {
		return err
	}
	defer over()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := a.NewMutex(name, holdfast.Fenced()).Lock(ctx, holdfast.FixedLease(fencedLease))
	if err != nil {
		return err
	}
	got := make(chan taken, 1)
	go func() { got <- take(ctx, b.NewMutex(name, holdfast.Fenced())) }()
	sent := time.Now()
	s.Stage.Point(fmt.Sprintf("A has the lock, with token %d. It sends \"A was here\", which is held up.", first.Token()))
	second, err := s.outlive(ctx, first, got)
	if err != nil {
		return err
	}
	if err := untilLost(ctx, first); err != nil {
		return err
	}
	s.Stage.Point(fmt.Sprintf("A's lease has run out. B has the lock, with token %d, and writes \"B was here\".", second.Token()))
	careful, careless := &store{checks: true}, &store{}
	if err := errors.Join(careful.write(second.Token(), "B was here"), careless.write(second.Token(), "B was here")); err != nil {
		return err
	}
	s.Stage.Point(fmt.Sprintf("A's write arrives, %s after it was sent.", seconds(time.Since(sent))))
	rejected, overwritten := careful.write(first.Token(), "A was here"), careless.write(first.Token(), "A was here")
	if err := errors.Join(overwritten, second.Unlock()); err != nil {
		return err
	}
	if rejected == nil || second.Token() <= first.Token() {
		return fmt.Errorf("a write with token %d was accepted after one with token %d", first.Token(), second.Token())
	}
	s.Stage.Point(fmt.Sprintf("The store that checks rejects it: %v. It has %q.", rejected, careful.row))
	s.Stage.Point(fmt.Sprintf("The store that does not look has %q: B's write is lost, and nobody was told.", careless.row))
	s.measuredf("Fencing: the late write was rejected, because its token was %d less.", second.Token()-first.Token())
	if err := first.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		return fmt.Errorf("the first hold was not lost: %w", err)
	}
	return nil
}

// outlive waits until the next one has the lock.
func (s *show) outlive(ctx context.Context, first *holdfast.Hold, got chan taken) (*holdfast.Hold, error) {
	tick := time.NewTicker(sample)
	defer tick.Stop()
	for {
		select {
		case t := <-got:
			s.Stage.Keep()
			if t.err == nil && t.at.Before(first.Deadline()) {
				return nil, errEarly
			}
			return t.hold, t.err
		case <-tick.C:
		}
		ttl, err := s.pttl(ctx, first.Name())
		if err != nil {
			return nil, err
		}
		if ttl == 0 && time.Now().Before(first.Deadline()) {
			return nil, errEarly
		}
		words := "A holds, B waits"
		if first.Context().Err() != nil {
			words = "A knows that it has lost it, B waits"
		}
		s.drawTTL("PTTL", ttl, fencedLease, words)
	}
}

// growing takes a lock several times, and loses its token in between.
func (s *show) growing(ctx context.Context) error {
	s.Stage.Say("A failover can lose the key with the last token. A counter would then start again, and tokens that were given before would come " +
		"again. These follow the server's time in microseconds, so they grow even then:")
	name := s.fenced("tokens")
	last := int64(0)
	for i := range 5 {
		if i == 3 {
			if err := s.rdb.Del(ctx, protocol.TokenKey(name)).Err(); err != nil {
				return err
			}
			s.Stage.Point("The key with the last token is deleted, as a failover may lose it.")
		}
		token, err := s.oneToken(ctx, name)
		if err != nil {
			return err
		}
		s.Stage.Point(fmt.Sprintf("Lock: token %d", token))
		if token <= last {
			return fmt.Errorf("the token %d is not greater than %d", token, last)
		}
		last = token
	}
	s.measuredf("Tokens: 5 of 5 were greater than the one before, also after their key was lost.")
	return nil
}

// oneToken takes the lock with a client of its own, and returns the token, which
// is also what stands in Redis.
func (s *show) oneToken(ctx context.Context, name string) (int64, error) {
	client, done, err := s.client(nil)
	if err != nil {
		return 0, err
	}
	defer done()
	hold, err := client.NewMutex(name, holdfast.Fenced()).Lock(ctx)
	if err != nil {
		return 0, err
	}
	stands, err := s.rdb.Get(ctx, protocol.TokenKey(name)).Result()
	if err := errors.Join(err, hold.Unlock()); err != nil {
		return 0, err
	}
	if stands != strconv.FormatInt(hold.Token(), 10) {
		return 0, fmt.Errorf("the token is %d, but in Redis it is %s", hold.Token(), stands)
	}
	return hold.Token(), nil
}
