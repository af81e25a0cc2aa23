package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

const (
	// closeLimit bounds the end of the client, and sweepLimit the look for what is left.
	closeLimit = 2 * time.Second
	sweepLimit = 3 * time.Second
	// tick is how often the progress is told.
	tick = 100 * time.Millisecond
)

// run is one call of [Run].
type run struct {
	Config

	rdb    redis.UniversalClient
	client *holdfast.Client
	first  string   // the name of a lock that is tried before
	names  []string // of those that are measured
	rooms  []room
	shards []shard
}

// Run runs the workload until its time is up, or the context ends. It returns what was
// measured until then, also together with an error that is about what came after. An
// error is an [exit.Error]. If one grant can serve several holds, it runs the workload a second
// time without that: see [Result.ThroughRedis].
func Run(ctx context.Context, cfg Config) (*Result, error) {
	result, err := runOnce(ctx, cfg)
	if err != nil || result.Interrupted || !cfg.formsCohorts() {
		return result, err
	}
	cfg.WithoutHandOver = true
	result.ThroughRedis, err = runOnce(ctx, cfg)
	if result.ThroughRedis == nil && ctx.Err() != nil {
		err = nil // interrupted between the two
	}
	return result, err
}

func runOnce(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.check(); err != nil {
		return nil, &exit.Error{Code: exit.Usage, Err: err}
	}
	r := &run{Config: cfg, rdb: cfg.Target.Client(cfg.Target.Dial)}
	defer r.rdb.Close() //nolint:errcheck // nothing depends on it any more
	if err := r.open(); err != nil {
		return nil, err
	}
	if err := r.once(ctx); err != nil {
		connect.CloseWithin(closeLimit, r.client)
		return nil, err
	}
	result := r.measure(ctx)
	connect.CloseWithin(closeLimit, r.client) // before the sweep: it gives back what it may still have
	return result, both(result.failure(), r.sweep())
}

// both is one error of two, of which either may be nil, with the code of the first.
func both(first, second *exit.Error) error {
	switch {
	case first == nil && second == nil:
		return nil
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return &exit.Error{Code: first.Code, Err: fmt.Errorf("%w; %w", first, second)}
}

func (r *run) open() (err error) {
	options := append(r.Target.ClientOptions(), holdfast.WithLease(r.Lease))
	if r.WithoutHandOver {
		options = append(options, holdfast.WithoutHandOver())
	}
	r.client, err = holdfast.New(goredisdriver.New(r.rdb), options...)
	if err != nil {
		return exit.Of(err)
	}
	prefix := r.Prefix + ":" + strings.ToLower(rand.Text()[:8])
	r.first = prefix + ":first"
	for i := range r.Locks {
		r.names = append(r.names, prefix+":"+strconv.Itoa(i))
	}
	r.rooms, r.shards = make([]room, r.Locks), newShards()
	return nil
}

// once does one pair, with a lock of its own, so that what cannot work is said at once.
// It connects, and the server gets to know the scripts.
func (r *run) once(ctx context.Context) error {
	if err := r.rdb.Ping(ctx).Err(); err != nil && ctx.Err() == nil { // a lock would try for longer
		return r.unavailable(err)
	}
	hold, err := r.locker(r.first).Lock(ctx)
	if err == nil {
		err = hold.Unlock()
	}
	var backend *holdfast.BackendError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return exit.Because(exit.Failed, "it was interrupted before anything was measured")
	case errors.As(err, &backend):
		return r.unavailable(backend.Err)
	default:
		return exit.Of(err)
	}
}

func (r *run) unavailable(err error) *exit.Error {
	return exit.Because(exit.Unavailable, "Redis (%s) cannot be used: %v", r.Target, connect.Explain(err))
}

// measure has the workers work.
func (r *run) measure(ctx context.Context) *Result {
	began := time.Now()
	working, cancel := context.WithTimeout(ctx, r.Duration)
	defer cancel()
	workers := make([]*worker, r.Goroutines)
	var group sync.WaitGroup
	for i := range workers {
		workers[i] = r.worker(i)
		group.Go(func() { workers[i].run(working) })
	}
	told := r.tell(working, began)
	group.Wait()
	elapsed := time.Since(began)
	cancel()
	<-told
	return r.result(workers, min(elapsed, r.Duration), ctx.Err() != nil)
}

// tell tells of the progress until the context ends. The channel is closed then.
func (r *run) tell(ctx context.Context, began time.Time) <-chan struct{} {
	done := make(chan struct{})
	if r.Progress == nil {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.Progress(min(time.Since(began), r.Duration), r.pairs())
			case <-ctx.Done():
				return
			}
		}
	}()
	return done
}

func (r *run) worker(i int) *worker {
	which := i % r.Locks
	return &worker{lock: r.locker(r.names[which]), room: &r.rooms[which], exclusive: r.Kind.exclusive(), hold: r.Hold, shard: &r.shards[i%len(r.shards)]}
}

func (r *run) locker(name string) holdfast.Locker {
	switch r.Kind {
	case Fair:
		return r.client.NewFairMutex(name)
	case Read:
		return r.client.NewRWMutex(name).RLocker()
	case Write:
		return r.client.NewRWMutex(name)
	default:
		return r.client.NewMutex(name)
	}
}

// sweep removes what is left of the locks: whose turn it is, for a second, and more only if something has failed.
func (r *run) sweep() *exit.Error {
	ctx, cancel := context.WithTimeout(context.Background(), sweepLimit)
	defer cancel()
	for _, name := range append(r.names, r.first) {
		for _, key := range r.keys(name) { // one by one: on a cluster, keys of one call have one slot
			err := r.rdb.Del(ctx, key).Err()
			if key != name && redis.IsPermissionError(err) {
				continue // nor has it been written: who lacks that right does not stand in line
			}
			if err != nil {
				return exit.Because(exit.Unavailable, "it is not certain that nothing is left behind: locks whose names begin with %q end with their lease "+
					"within %v; Redis (%s) cannot be used: %v", r.Prefix, r.Lease, r.Target, connect.Explain(err))
			}
		}
	}
	return nil
}

// keys are all that a lock of the kind may have.
func (r *run) keys(name string) []string {
	inLine := []string{name, protocol.WaitlistKey(name), protocol.RequestsKey(name), protocol.YieldKey(name)}
	switch r.Kind {
	case Fair:
		return []string{name, protocol.FairQueueKey(name), protocol.FairTimeoutsKey(name), protocol.FairHeartbeatsKey(name)}
	default:
		return inLine
	}
}
