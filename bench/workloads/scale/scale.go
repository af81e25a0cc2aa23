package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/places"
	"github.com/holdfast-go/holdfast/bench/workloads"
	"github.com/holdfast-go/holdfast/bench/workloads/held"
	"github.com/holdfast-go/holdfast/internal/call"
)

// tags are how many hash tags holds share.
const tags = 48

// Largest is how many primaries the largest cluster has.
const Largest = 3

// A Run measures what limits how far one server goes, and a cluster.
type Run struct {
	Setup      contenders.Setup
	Contenders []contenders.Contender // of holdfast's
	Rounds     int
	Window     time.Duration // of a round
	Limit      time.Duration // of a pair
	Holds      int
	Quick      bool
	Progress   io.Writer

	ID       string // in front of every key
	Sizes    sizes
	server   *places.Place
	clusters []*places.Place // of one primary, two, and so on
	report   Report
}

// sizes are how much of everything there is.
type sizes struct {
	Goroutines int // each on a lock of its own
	Contended  int // locks, which two clients want each
	listeners  int
	channels   int // of one listener
	messages   int // to each listener
}

// Report is what has been measured.
type Report struct {
	Run         *Run
	Primaries   []Primaries
	Messages    []Messages
	Renewals    []Renewals
	Subscribers Subscribers
	Idle        []Idle
}

// Idle are of a place where nothing happens.
type Idle struct {
	Place   string
	NodeCPU float64 // a share of a core, of the busiest one
}

// Primaries are of locks of their own on a place: who spends what on a pair.
type Primaries struct {
	Place, Client                            string
	PerSecond                                workloads.Spread[float64]
	RedisMicros, BusiestMicros, ClientMicros workloads.Spread[float64] // on a core, for a pair
	Shares                                   []float64                 // of the scripts by node, in the last round
}

// Messages are of locks that two clients want each, on the largest cluster.
type Messages struct {
	Client                 string
	Sharded                bool
	PerSecond, RedisMicros workloads.Spread[float64]
	Scripts, Bus           workloads.Spread[float64] // for a pair
}

// Renewals are of holds that are kept.
type Renewals struct {
	Place, Names, Client   string
	Holds                  int
	Calls                  float64 // a second
	RedisCPU, Busiest, CPU float64 // shares of a core
	RedisBytes             float64 // of a hold
	Lost                   int
}

// Measure measures everything. Of a run that has failed there is what was measured before.
func (r *Run) Measure(ctx context.Context) (Report, error) {
	r.ID, r.Sizes = workloads.NewID(), sizes{Goroutines: 256, Contended: 32, listeners: 1000, channels: 10_000, messages: 500}
	if r.Quick {
		r.Sizes = sizes{Goroutines: 16, Contended: 4, listeners: 20, channels: 100, messages: 10}
	}
	r.report.Run = r
	err := places.OnStage(func(stage *places.Stage) error {
		r.server = places.Open(stage, "one server", r.Setup.Addrs...)
		for n := 1; n <= Largest; n++ {
			c, err := places.StartCluster(ctx, stage, n)
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
func (r *Run) largest() *places.Place { return r.clusters[len(r.clusters)-1] }

// say tells how far it is.
func (r *Run) say(what string, p *places.Place, c contenders.Contender) error {
	_, err := fmt.Fprintf(r.Progress, "scale  %-11s %-13s %s\n", what, p.Name, c.Full())
	return err
}

// idle sees what nodes need while nothing happens.
func (r *Run) idle(ctx context.Context) error {
	for _, p := range []*places.Place{r.server, r.largest()} {
		s, err := p.SpentIn(ctx, 3*r.Window)
		if err != nil {
			return err
		}
		r.report.Idle = append(r.report.Idle, Idle{p.Name, places.Share(s.Most(), s.Passed)})
	}
	return nil
}

// with opens a contender at a place, calls f, and closes it.
func (r *Run) with(ctx context.Context, p *places.Place, c contenders.Contender, plain bool, f func(*contenders.Session) error) (err error) {
	at := r.Setup
	at.Addrs, at.Cluster, at.Plain = p.Addrs, p.Cluster, plain
	s, err := c.Open(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.CloseWithin(3*r.Limit, s)) }()
	return f(s)
}

// perPair are what one pair has cost in each round.
type perPair struct{ pairs, redis, busiest, own, scripts, bus []float64 }

func (a *perPair) add(n int, window time.Duration, s places.Spending) {
	pairs := float64(max(n, 1))
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / pairs }
	a.pairs = append(a.pairs, float64(n)/window.Seconds())
	a.redis = append(a.redis, micros(s.Total().CPU))
	a.busiest = append(a.busiest, micros(s.Most()))
	a.own = append(a.own, micros(s.Own))
	a.scripts = append(a.scripts, float64(s.Total().Scripts)/pairs)
	a.bus = append(a.bus, float64(s.Total().Bus)/pairs)
}

// primaries has goroutines lock and unlock a lock each, on all places in turns.
func (r *Run) primaries(ctx context.Context) error {
	places := append([]*places.Place{r.server}, r.clusters...)
	for _, c := range r.Contenders {
		spent := make([]perPair, len(places))
		shares := make([][]float64, len(places))
		for round := range r.Rounds {
			for at, p := range places {
				if round == 0 {
					if err := r.say("primaries", p, c); err != nil {
						return err
					}
				}
				if err := r.with(ctx, p, c, false, func(s *contenders.Session) (err error) {
					shares[at], err = r.pairs(ctx, p, s, &spent[at])
					return err
				}); err != nil {
					return err
				}
			}
		}
		for at, p := range places {
			a := spent[at]
			r.report.Primaries = append(r.report.Primaries, Primaries{
				Place: p.Name, Client: c.Client, PerSecond: workloads.SpreadOf(a.pairs), RedisMicros: workloads.SpreadOf(a.redis),
				BusiestMicros: workloads.SpreadOf(a.busiest), ClientMicros: workloads.SpreadOf(a.own), Shares: shares[at],
			})
		}
	}
	return nil
}

// pairs is one round of one contender on a place.
func (r *Run) pairs(ctx context.Context, p *places.Place, s *contenders.Session, a *perPair) (shares []float64, err error) {
	c := &workloads.Cell{Order: workloads.Order{
		Workload: workloads.Workload{Goroutines: r.Sizes.Goroutines}, Prefix: r.ID, Window: r.Window / 4, Limit: r.Limit,
	}, Session: s}
	c.Run(ctx) // connections, scripts
	c.Window = r.Window
	before, err := p.Spent(ctx)
	if err != nil {
		return nil, err
	}
	f := c.Run(ctx)
	after, err := p.Spent(ctx)
	if err != nil {
		return nil, err
	}
	if remark := f.Remark(); remark != "" || f.Completed == 0 || f.Overlaps > 0 {
		return nil, fmt.Errorf("%s: %d pairs, %d overlaps: %s", p.Name, f.Completed, f.Overlaps, remark)
	}
	spent := after.Since(before)
	a.add(f.Completed, r.Window, spent)
	return spent.Shares(), nil
}

// messages has two clients want each of some locks, on the largest cluster.
func (r *Run) messages(ctx context.Context) error {
	p := r.largest()
	for _, c := range r.Contenders {
		for _, sharded := range []bool{true, false} {
			if err := r.say("messages", p, c); err != nil {
				return err
			}
			var a perPair
			for range r.Rounds {
				if err := r.with(ctx, p, c, !sharded, func(one *contenders.Session) error {
					return r.with(ctx, p, c, !sharded, func(other *contenders.Session) error {
						return r.contend(ctx, p, [2]*contenders.Session{one, other}, &a)
					})
				}); err != nil {
					return err
				}
			}
			r.report.Messages = append(r.report.Messages, Messages{
				Client: c.Client, Sharded: sharded,
				PerSecond: workloads.SpreadOf(a.pairs), RedisMicros: workloads.SpreadOf(a.redis), Scripts: workloads.SpreadOf(a.scripts), Bus: workloads.SpreadOf(a.bus),
			})
		}
	}
	return nil
}

// contend is one round of two clients.
func (r *Run) contend(ctx context.Context, p *places.Place, clients [2]*contenders.Session, a *perPair) error {
	var pairs atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	run, stop := context.WithCancel(ctx)
	defer stop()
	for i := range r.Sizes.Contended {
		for _, s := range clients {
			once := s.Pair(fmt.Sprintf("%s:contended:%d", r.ID, i))
			all.Go(func() {
				for run.Err() == nil {
					err := once(run, func() {})
					switch {
					case err == nil:
						pairs.Add(1)
					case run.Err() == nil:
						failed.Store(&err)
						call.Sleep(run, time.Millisecond)
					}
				}
			})
		}
	}
	call.Sleep(ctx, r.Window/4) // connections, subscriptions
	// To ask the nodes takes its time, in which the pairs go on. So both are looked at in the same order each time.
	start, begun := time.Now(), pairs.Load()
	before, err := p.Spent(ctx)
	if err == nil {
		call.Sleep(ctx, r.Window)
		passed, done := time.Since(start), pairs.Load()-begun
		var after places.Spending
		if after, err = p.Spent(ctx); err == nil {
			a.add(int(done), passed, after.Since(before))
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
func (r *Run) renewals(ctx context.Context) error {
	own := func(i int) string { return fmt.Sprintf("%s:held:%d", r.ID, i) }
	tagged := func(i int) string { return fmt.Sprintf("%s:{%d}:held:%d", r.ID, i%tags, i) }
	for _, at := range []struct {
		place *places.Place
		names string
		name  func(int) string
	}{
		{r.server, "any", own},
		{r.largest(), "any", own},
		{r.largest(), fmt.Sprintf("in %d hash tags", tags), tagged},
	} {
		for _, c := range r.Contenders {
			if err := r.say("renewals", at.place, c); err != nil {
				return err
			}
			names := make([]string, r.Holds)
			for i := range names {
				names[i] = at.name(i)
			}
			record := Renewals{Place: at.place.Name, Names: at.names, Client: c.Client, Holds: len(names)}
			if err := r.with(ctx, at.place, c, false, func(s *contenders.Session) error { return r.keep(ctx, at.place, s, names, &record) }); err != nil {
				return err
			}
			r.report.Renewals = append(r.report.Renewals, record)
		}
	}
	return nil
}

// keep holds locks for a lease, and notes what that costs.
func (r *Run) keep(ctx context.Context, p *places.Place, s *contenders.Session, names []string, f *Renewals) (err error) {
	if err := held.Warm(ctx, s, r.ID); err != nil {
		return err
	}
	empty, err := p.Memory(ctx)
	if err != nil {
		return err
	}
	kept := s.Holds(len(names))
	defer func() { err = errors.Join(err, held.GiveBackAll(ctx, kept, len(names), err)) }()
	if err := held.TakeAll(ctx, kept, names, 0); err != nil {
		return err
	}
	call.Sleep(ctx, listensAfter)
	if err := places.AwaitQuiet(ctx); err != nil {
		return err
	}
	full, err := p.Memory(ctx)
	if err != nil {
		return err
	}
	f.RedisBytes = float64(full-empty) / float64(len(names))
	spent, err := p.SpentIn(ctx, r.Setup.Lease)
	if err != nil {
		return err
	}
	f.Calls = float64(spent.Total().Scripts) / spent.Passed.Seconds()
	f.RedisCPU, f.Busiest, f.CPU = places.Share(spent.Total().CPU, spent.Passed), places.Share(spent.Most(), spent.Passed), places.Share(spent.Own, spent.Passed)
	f.Lost = kept.Lost()
	return nil
}

// listensAfter is after which time a hold has subscribed to the news of a forced unlock.
const listensAfter = 1500 * time.Millisecond
