package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

const (
	redServers = 3
	redLease   = 3 * time.Second
	// redTimeout is how long a server is waited for.
	redTimeout = 2500 * time.Millisecond
	// outlived is for how long the lock is watched with a server less.
	outlived = redLease + 500*time.Millisecond
)

var redLockShow = Show{
	Name:    "redlock",
	About:   "a lock on three servers of its own, of which one dies meanwhile",
	Servers: "three Redis servers inside this process that know nothing of each other, so that one of them can be stopped",
	intro:   "A RedLock is an ordinary lock on each of them, and is held while more than half of them hold it.",
	scenes: []scene{
		{"One server dies, and the lock holds", (*show).oneDies},
	},
}

// quorum is the servers of a RedLock.
type quorum struct {
	*show
	name    string
	servers []*Server
	targets []*connect.Target
	rdbs    []redis.UniversalClient // to look at them
	closers []func()
}

func (s *show) newQuorum() (*quorum, error) {
	q := &quorum{show: s, name: s.prefix + ":quorum"}
	for range redServers {
		server, err := StartServer()
		if err != nil {
			return q, err
		}
		q.closers = append(q.closers, server.Close)
		target, err := server.Target()
		if err != nil {
			return q, err
		}
		rdb := target.Client(target.Dial)
		q.closers = append(q.closers, func() { _ = rdb.Close() })
		q.servers, q.targets, q.rdbs = append(q.servers, server), append(q.targets, target), append(q.rdbs, rdb)
	}
	return q, nil
}

func (q *quorum) close() {
	for _, f := range slices.Backward(q.closers) {
		f()
	}
}

// process is a RedLock with a client for each server, as a process of its own
// would have it.
func (q *quorum) process() (*holdfast.MultiLock, error) {
	var lockers []holdfast.Locker
	for _, target := range q.targets {
		client, done, err := (&show{Config: Config{Target: target}}).client(nil, holdfast.WithLease(redLease), holdfast.WithTimeout(redTimeout))
		if err != nil {
			return nil, err
		}
		q.closers = append(q.closers, done)
		lockers = append(lockers, client.NewMutex(q.name))
	}
	return holdfast.NewRedLock(lockers...), nil
}

// holders says what each server has, and on how many of them it is the hold. Each
// server's part of it has an owner of its own.
func (q *quorum) holders(ctx context.Context, hold *holdfast.Hold) (held int, words string) {
	parts := make([]string, len(q.rdbs))
	for i, rdb := range q.rdbs {
		switch found, err := rdb.HKeys(ctx, q.name).Result(); {
		case err != nil:
			parts[i] = fmt.Sprintf("%d: no answer", i+1)
		case len(found) == 0:
			parts[i] = fmt.Sprintf("%d: free", i+1)
		default:
			parts[i] = fmt.Sprintf("%d: %s", i+1, short8(found[0]))
			if slices.ContainsFunc(hold.Parts(), func(part *holdfast.Hold) bool { return part.Owner().String() == found[0] }) {
				held++
			}
		}
	}
	return held, strings.Join(parts, ", ")
}

// oneDies stops a server while the lock is held, and then another one.
func (s *show) oneDies(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("Two processes want a lock, with a lease of %s. This is who holds it on each server, the first 8 characters "+
		"of the owner in the hash there; a process has a client, and so an owner, for each server:", seconds(redLease)))
	q, err := s.newQuorum()
	defer q.close()
	if err != nil {
		return err
	}
	first, err := q.process()
	if err != nil {
		return err
	}
	second, err := q.process()
	if err != nil {
		return err
	}
	hold, err := first.Lock(ctx)
	if err != nil {
		return err
	}
	if err := q.expect(ctx, hold, redServers, "The first process has the lock"); err != nil {
		return err
	}
	q.servers[0].Close()
	if err := q.outlive(ctx, hold, second); err != nil {
		return err
	}
	return q.noQuorum(ctx, hold)
}

// expect says who holds the lock on each server, and checks on how many it is
// this hold.
func (q *quorum) expect(ctx context.Context, hold *holdfast.Hold, want int, words string) error {
	for end := time.Now().Add(redTimeout); ; {
		held, found := q.holders(ctx, hold)
		if held != want && time.Now().Before(end) { // the last server joins a moment after the quorum
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
			continue
		}
		q.Stage.Point(words + ". Server " + found)
		if held != want {
			return fmt.Errorf("%d servers should have the lock, but %d do", want, held)
		}
		return nil
	}
}

// outlive watches the hold for longer than its lease, with a server less.
func (q *quorum) outlive(ctx context.Context, hold *holdfast.Hold, other *holdfast.MultiLock) error {
	began := time.Now()
	tick := time.NewTicker(sample)
	defer tick.Stop()
	for time.Since(began) < outlived {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		held, found := q.holders(ctx, hold)
		line := fmt.Sprintf("%s after server 1 was stopped  %s", seconds(time.Since(began)), found)
		q.Stage.Live([]string{line}, line)
		if cause := context.Cause(hold.Context()); cause != nil || held < redServers-1 {
			return errors.Join(errors.New("the lock was lost with one server of three"), cause)
		}
	}
	q.Stage.Keep()
	if _, err := other.TryLock(ctx); !errors.Is(err, holdfast.ErrLocked) {
		return fmt.Errorf("the second process should have been refused, but the error is %w", err)
	}
	lasted := time.Since(began)
	q.Stage.Point(fmt.Sprintf("Held for %s without server 1, longer than the lease. The second process tries, and is refused.", seconds(lasted)))
	q.measuredf("RedLock: held for %s after one server of %d was stopped.", seconds(lasted), redServers)
	return nil
}

// noQuorum stops another server.
func (q *quorum) noQuorum(ctx context.Context, hold *holdfast.Hold) error {
	q.servers[1].Close()
	at := time.Now()
	select {
	case <-hold.Context().Done():
	case <-time.After(redLease + late):
		return errors.New("the holder was not told that it has no quorum any more")
	}
	told := time.Since(at)
	if err := expectLost(ctx, hold); err != nil {
		return err
	}
	q.Stage.Point(fmt.Sprintf("Server 2 is stopped, too. One of three is no quorum: the holder's context ended with ErrLost %s later; the lease is %s.",
		seconds(told), seconds(redLease)))
	q.measuredf("No quorum: the holder knew %s after a second server was stopped.", seconds(told))
	if told > redLease+late/2 { // of a busy machine, whose timers are late
		return fmt.Errorf("the holder was told only after %v, and the lease is %v", told, redLease)
	}
	if err := hold.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		return fmt.Errorf("the hold should have been lost, but the error is %w", err)
	}
	return q.expect(ctx, hold, 0, "It unlocks what is left")
}
