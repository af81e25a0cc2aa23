package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
)

const (
	scaleGoroutines = 256 // each on a lock of its own
	scalePrimaries  = 3   // of the largest cluster
	scaleContended  = 32  // locks, which two clients want each
	scaleTags       = 48  // hash tags that holds share
	scaleListeners  = 1000
	scaleChannels   = 10_000
	scaleMessages   = 500 // to each listener
)

// A scaleRun measures what limits how far one server goes, and a cluster.
type scaleRun struct {
	setup      setup
	contenders []contender // of holdfast's
	rounds     int
	window     time.Duration // of a round
	limit      time.Duration // of a pair
	holds      int
	quick      bool
	progress   io.Writer

	id       string // in front of every key
	sizes    scaleSizes
	server   *place
	clusters []*place // of one primary, two, and so on
	report   scaleReport
}

// scaleSizes are how much of everything there is.
type scaleSizes struct{ goroutines, contended, listeners, channels, messages int }

// scaleReport is what has been measured.
type scaleReport struct {
	run         *scaleRun
	primaries   []primariesFigures
	messages    []messagesFigures
	renewals    []renewalsFigures
	subscribers subscribersFigures
	idle        []idleFigures
}

// idleFigures are of a place where nothing happens.
type idleFigures struct {
	place   string
	nodeCPU float64 // a share of a core, of the busiest one
}

// primariesFigures are of locks of their own on a place: who spends what on a pair.
type primariesFigures struct {
	place, client                            string
	perSecond                                spread[float64]
	redisMicros, busiestMicros, clientMicros spread[float64] // on a core, for a pair
	shares                                   []float64       // of the scripts by node, in the last round
}

// messagesFigures are of locks that two clients want each, on the largest cluster.
type messagesFigures struct {
	client                 string
	sharded                bool
	perSecond, redisMicros spread[float64]
	scripts, bus           spread[float64] // for a pair
}

// renewalsFigures are of holds that are kept.
type renewalsFigures struct {
	place, names, client   string
	holds                  int
	calls                  float64 // a second
	redisCPU, busiest, cpu float64 // shares of a core
	redisBytes             float64 // of a hold
	lost                   int
}

// measure measures everything. Of a run that has failed there is what was measured before.
func (r *scaleRun) measure(ctx context.Context) (scaleReport, error) {
	r.id, r.sizes = newID(), scaleSizes{scaleGoroutines, scaleContended, scaleListeners, scaleChannels, scaleMessages}
	if r.quick {
		r.sizes = scaleSizes{16, 4, 20, 100, 10}
	}
	r.report.run = r
	err := onStage(func(t testing.TB) error {
		r.server = openPlace(t, "one server", r.setup.Addrs...)
		for n := 1; n <= scalePrimaries; n++ {
			c, err := startCluster(ctx, t, n)
			if err != nil {
				return err
			}
			r.clusters = append(r.clusters, c)
		}
		for _, step := range []func(context.Context) error{r.idle, r.primaries, r.messages, r.renewals, r.subscribers} {
			if err := errors.Join(ctx.Err(), step(ctx)); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return r.report, err
}

// largest is the largest cluster.
func (r *scaleRun) largest() *place { return r.clusters[len(r.clusters)-1] }

// say tells how far it is.
func (r *scaleRun) say(what string, p *place, c contender) error {
	_, err := fmt.Fprintf(r.progress, "scale  %-11s %-13s %s\n", what, p.name, c.full())
	return err
}

// idle sees what nodes need while nothing happens.
func (r *scaleRun) idle(ctx context.Context) error {
	for _, p := range []*place{r.server, r.largest()} {
		s, err := p.spentIn(ctx, 3*r.window)
		if err != nil {
			return err
		}
		r.report.idle = append(r.report.idle, idleFigures{p.name, share(s.most(), s.passed)})
	}
	return nil
}

// with opens a contender at a place, calls f, and closes it.
func (r *scaleRun) with(ctx context.Context, p *place, c contender, plain bool, f func(holder) error) (err error) {
	at := r.setup
	at.Addrs, at.Cluster, at.Plain = p.addrs, p.cluster, plain
	s, err := openHolder(ctx, c, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeWithin(3*r.limit, c, s)) }()
	return f(s)
}

// perPair are what one pair has cost in each round.
type perPair struct{ pairs, redis, busiest, own, scripts, bus []float64 }

func (a *perPair) add(n int, window time.Duration, s spending) {
	pairs := float64(max(n, 1))
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / pairs }
	a.pairs = append(a.pairs, float64(n)/window.Seconds())
	a.redis = append(a.redis, micros(s.total().cpu))
	a.busiest = append(a.busiest, micros(s.most()))
	a.own = append(a.own, micros(s.own))
	a.scripts = append(a.scripts, float64(s.total().scripts)/pairs)
	a.bus = append(a.bus, float64(s.total().bus)/pairs)
}

// primaries has goroutines lock and unlock a lock each, on all places in turns.
func (r *scaleRun) primaries(ctx context.Context) error {
	places := append([]*place{r.server}, r.clusters...)
	for _, c := range r.contenders {
		spent := make([]perPair, len(places))
		shares := make([][]float64, len(places))
		for round := range r.rounds {
			for at, p := range places {
				if round == 0 {
					if err := r.say("primaries", p, c); err != nil {
						return err
					}
				}
				if err := r.with(ctx, p, c, false, func(s holder) (err error) {
					shares[at], err = r.pairs(ctx, p, s, &spent[at])
					return err
				}); err != nil {
					return err
				}
			}
		}
		for at, p := range places {
			a := spent[at]
			r.report.primaries = append(r.report.primaries, primariesFigures{
				place: p.name, client: c.client, perSecond: spreadOf(a.pairs), redisMicros: spreadOf(a.redis),
				busiestMicros: spreadOf(a.busiest), clientMicros: spreadOf(a.own), shares: shares[at],
			})
		}
	}
	return nil
}

// pairs is one round of one contender on a place.
func (r *scaleRun) pairs(ctx context.Context, p *place, s holder, a *perPair) (shares []float64, err error) {
	c := &cell{order: order{workload{Goroutines: r.sizes.goroutines}, r.id, r.window / 4, r.limit}, session: s}
	c.run(ctx) // connections, scripts
	c.Window = r.window
	before, err := p.spent(ctx)
	if err != nil {
		return nil, err
	}
	f := c.run(ctx)
	after, err := p.spent(ctx)
	if err != nil {
		return nil, err
	}
	if remark := f.remark(); remark != "" || f.Completed == 0 || f.Overlaps > 0 {
		return nil, fmt.Errorf("%s: %d pairs, %d overlaps: %s", p.name, f.Completed, f.Overlaps, remark)
	}
	spent := after.since(before)
	a.add(f.Completed, r.window, spent)
	return spent.shares(), nil
}

// messages has two clients want each of some locks, on the largest cluster.
func (r *scaleRun) messages(ctx context.Context) error {
	p := r.largest()
	for _, c := range r.contenders {
		for _, sharded := range []bool{true, false} {
			if err := r.say("messages", p, c); err != nil {
				return err
			}
			var a perPair
			for range r.rounds {
				if err := r.with(ctx, p, c, !sharded, func(one holder) error {
					return r.with(ctx, p, c, !sharded, func(other holder) error { return r.contend(ctx, p, [2]holder{one, other}, &a) })
				}); err != nil {
					return err
				}
			}
			r.report.messages = append(r.report.messages, messagesFigures{
				client: c.client, sharded: sharded,
				perSecond: spreadOf(a.pairs), redisMicros: spreadOf(a.redis), scripts: spreadOf(a.scripts), bus: spreadOf(a.bus),
			})
		}
	}
	return nil
}

// contend is one round of two clients.
func (r *scaleRun) contend(ctx context.Context, p *place, clients [2]holder, a *perPair) error {
	var pairs atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	run, stop := context.WithCancel(ctx)
	defer stop()
	for i := range r.sizes.contended {
		for _, s := range clients {
			once := s.pair(fmt.Sprintf("%s:contended:%d", r.id, i))
			all.Go(func() {
				for run.Err() == nil {
					err := once(run, func() {})
					switch {
					case err == nil:
						pairs.Add(1)
					case run.Err() == nil:
						failed.Store(&err)
						call.Sleep(run, failPause)
					}
				}
			})
		}
	}
	call.Sleep(ctx, r.window/4) // connections, subscriptions
	// To ask the nodes takes its time, in which the pairs go on. So both are looked at in the same order each time.
	start, begun := time.Now(), pairs.Load()
	before, err := p.spent(ctx)
	if err == nil {
		call.Sleep(ctx, r.window)
		passed, done := time.Since(start), pairs.Load()-begun
		var after spending
		if after, err = p.spent(ctx); err == nil {
			a.add(int(done), passed, after.since(before))
		}
	}
	stop()
	all.Wait()
	if e := failed.Load(); e != nil {
		err = errors.Join(err, *e)
	}
	return err
}

// renewals has one process hold many locks: on one server, on the largest cluster, and there
// in some hash tags.
func (r *scaleRun) renewals(ctx context.Context) error {
	own := func(i int) string { return fmt.Sprintf("%s:held:%d", r.id, i) }
	tagged := func(i int) string { return fmt.Sprintf("%s:{%d}:held:%d", r.id, i%scaleTags, i) }
	for _, at := range []struct {
		place *place
		names string
		name  func(int) string
	}{
		{r.server, "any", own},
		{r.largest(), "any", own},
		{r.largest(), fmt.Sprintf("in %d hash tags", scaleTags), tagged},
	} {
		for _, c := range r.contenders {
			if err := r.say("renewals", at.place, c); err != nil {
				return err
			}
			names := make([]string, r.holds)
			for i := range names {
				names[i] = at.name(i)
			}
			record := renewalsFigures{place: at.place.name, names: at.names, client: c.client, holds: len(names)}
			if err := r.with(ctx, at.place, c, false, func(s holder) error { return r.keep(ctx, at.place, s, names, &record) }); err != nil {
				return err
			}
			r.report.renewals = append(r.report.renewals, record)
		}
	}
	return nil
}

// keep holds locks for a lease, and notes what that costs.
func (r *scaleRun) keep(ctx context.Context, p *place, s holder, names []string, f *renewalsFigures) (err error) {
	if err := warm(ctx, s, r.id); err != nil {
		return err
	}
	empty, err := p.memory(ctx)
	if err != nil {
		return err
	}
	held := s.holds(len(names))
	defer func() { err = errors.Join(err, giveBackAll(ctx, held, len(names), err)) }()
	if err := takeAll(ctx, held, names, 0); err != nil {
		return err
	}
	call.Sleep(ctx, listensAfter)
	if err := awaitQuiet(ctx); err != nil {
		return err
	}
	full, err := p.memory(ctx)
	if err != nil {
		return err
	}
	f.redisBytes = float64(full-empty) / float64(len(names))
	spent, err := p.spentIn(ctx, r.setup.Lease)
	if err != nil {
		return err
	}
	f.calls = float64(spent.total().scripts) / spent.passed.Seconds()
	f.redisCPU, f.busiest, f.cpu = share(spent.total().cpu, spent.passed), share(spent.most(), spent.passed), share(spent.own, spent.passed)
	f.lost = held.lost()
	return nil
}

// listensAfter is after which time a hold has subscribed to the news of a forced unlock.
const listensAfter = 1500 * time.Millisecond
