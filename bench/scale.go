package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
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
	job    *job
	id     string // in front of every key
	setup  setup
	window time.Duration
	limit  time.Duration
	sizes  scaleSizes
	server *place
	// clusters are of one primary, two, and so on.
	clusters []*place
	report   scaleReport
}

// scaleSizes are how much of everything there is.
type scaleSizes struct{ goroutines, contended, listeners, channels, messages int }

// scaleReport is what has been measured.
type scaleReport struct {
	primaries   []primariesRecord
	messages    []messagesRecord
	renewals    []renewalsRecord
	subscribers subscribersRecord
	idle        []idleRecord
}

// idleRecord is a place where nothing happens.
type idleRecord struct {
	Kind    string  `json:"kind"`
	Place   string  `json:"place"`
	NodeCPU float64 `json:"node_cpu_share_of_core"` // of the busiest one
}

// primariesRecord is locks of their own on a place: who spends what on a pair.
type primariesRecord struct {
	Kind         string          `json:"kind"`
	Place        string          `json:"place"`
	Primaries    int             `json:"primaries"`
	Client       string          `json:"client"`
	PerSecond    spread[float64] `json:"pairs_per_second"`
	RedisMicros  spread[float64] `json:"redis_cpu_us_per_pair"`
	BusiestNode  spread[float64] `json:"busiest_node_cpu_us_per_pair"`
	ClientMicros spread[float64] `json:"client_cpu_us_per_pair"`
	Shares       []float64       `json:"share_of_scripts_by_node"` // of the last round
}

// messagesRecord is locks that two clients want each, on the largest cluster.
type messagesRecord struct {
	Kind        string          `json:"kind"`
	Client      string          `json:"client"`
	Sharded     bool            `json:"sharded"`
	PerSecond   spread[float64] `json:"pairs_per_second"`
	RedisMicros spread[float64] `json:"redis_cpu_us_per_pair"`
	Scripts     spread[float64] `json:"scripts_per_pair"`
	Bus         spread[float64] `json:"bus_messages_per_pair"`
}

// renewalsRecord is holds that are kept.
type renewalsRecord struct {
	Kind   string `json:"kind"`
	Place  string `json:"place"`
	Names  string `json:"names"`
	Client string `json:"client"`
	Holds  int    `json:"holds"`
	// Calls are a second; the shares are of a core.
	Calls      float64 `json:"calls_per_second"`
	RedisCPU   float64 `json:"redis_cpu_share_of_core"`
	Busiest    float64 `json:"busiest_node_share_of_core"`
	CPU        float64 `json:"cpu_share_of_core"`
	RedisBytes float64 `json:"redis_bytes_per_hold"`
	Lost       int     `json:"lost"`
}

// scale is the mode --scale.
func (j *job) scale(ctx context.Context) (err error) {
	if len(j.chosen((&place{}).contenders(false))) == 0 {
		return errNothing
	}
	r := j.scaleRun()
	defer func() { err = errors.Join(err, r.close()) }()
	failed := r.measure(ctx)
	// What has been measured before is worth having.
	return errors.Join(failed, writeAll(j.records, r.report.primaries), writeAll(j.records, r.report.messages),
		writeAll(j.records, r.report.renewals), writeAll(j.records, r.report.idle), j.records.write(r.report.subscribers), j.writeScale(r))
}

func (j *job) scaleRun() *scaleRun {
	r := &scaleRun{
		job: j, id: "holdfast-bench:" + rand.Text()[:8], setup: j.heldSetup(), window: j.duration, limit: j.timeout,
		sizes: scaleSizes{scaleGoroutines, scaleContended, scaleListeners, scaleChannels, scaleMessages},
	}
	if j.quick {
		r.sizes = scaleSizes{16, 4, 20, 100, 10}
	}
	return r
}

// measure measures everything. The run has to be closed, also after an error.
func (r *scaleRun) measure(ctx context.Context) error {
	for _, step := range []func(context.Context) error{r.open, r.idle, r.primaries, r.messages, r.renewals, r.subscribers} {
		if err := errors.Join(ctx.Err(), step(ctx)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// open starts the clusters.
func (r *scaleRun) open(ctx context.Context) error {
	r.server = openPlace("one server", false, []string{r.job.addr}, func() error { return nil })
	for n := 1; n <= scalePrimaries; n++ {
		c, err := startCluster(ctx, n)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("cluster of %d", n)
		r.clusters = append(r.clusters, openPlace(name, true, c.addrs(), c.close))
	}
	return nil
}

func (r *scaleRun) close() (err error) {
	for _, p := range append(r.clusters, r.server) {
		if p != nil {
			err = errors.Join(err, p.close())
		}
	}
	return err
}

// largest is the largest cluster.
func (r *scaleRun) largest() *place { return r.clusters[len(r.clusters)-1] }

// say tells how far it is.
func (r *scaleRun) say(what string, p *place, c contender) error {
	_, err := fmt.Fprintf(r.job.progress, "scale  %-11s %-13s %s\n", what, p.name, c.full())
	return err
}

// idle sees what nodes need while nothing happens.
func (r *scaleRun) idle(ctx context.Context) error {
	for _, p := range []*place{r.server, r.largest()} {
		before, err := p.spent(ctx)
		if err != nil {
			return err
		}
		pause(ctx, 3*r.window)
		after, err := p.spent(ctx)
		if err != nil {
			return err
		}
		record := idleRecord{Kind: "idle", Place: p.name, NodeCPU: share(0, after.since(before).most(), after.at.Sub(before.at))}
		r.report.idle = append(r.report.idle, record)
	}
	return nil
}

// with opens a contender, calls f, and closes it.
func (r *scaleRun) with(ctx context.Context, c contender, f func(holder) error) (err error) {
	s, err := openHolder(ctx, c, r.setup)
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
	for i := range r.job.chosen(places[0].contenders(false)) {
		spent := make([]perPair, len(places))
		shares := make([][]float64, len(places))
		for round := range r.job.rounds {
			for at, p := range places {
				c := r.job.chosen(p.contenders(false))[i]
				if round == 0 {
					if err := r.say("primaries", p, c); err != nil {
						return err
					}
				}
				if err := r.with(ctx, c, func(s holder) (err error) {
					shares[at], err = r.pairs(ctx, p, s, &spent[at])
					return err
				}); err != nil {
					return err
				}
			}
		}
		for at, p := range places {
			a := spent[at]
			r.report.primaries = append(r.report.primaries, primariesRecord{
				Kind: "primaries", Place: p.name, Primaries: len(p.nodes), Client: r.job.chosen(p.contenders(false))[i].client,
				PerSecond: spreadOf(a.pairs), RedisMicros: spreadOf(a.redis), BusiestNode: spreadOf(a.busiest),
				ClientMicros: spreadOf(a.own), Shares: shares[at],
			})
		}
	}
	return nil
}

// pairs is one round of one contender on a place.
func (r *scaleRun) pairs(ctx context.Context, p *place, s holder, a *perPair) (shares []float64, err error) {
	c := &cell{
		workload: workload{goroutines: r.sizes.goroutines}, session: s, prefix: r.id, window: r.window / 4, limit: r.limit,
	}
	c.run(ctx) // connections, scripts
	c.window = r.window
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
	for i := range r.job.chosen(p.contenders(false)) {
		for _, sharded := range []bool{true, false} {
			c := r.job.chosen(p.contenders(!sharded))[i]
			if err := r.say("messages", p, c); err != nil {
				return err
			}
			var a perPair
			for range r.job.rounds {
				if err := r.with(ctx, c, func(one holder) error {
					return r.with(ctx, c, func(other holder) error { return r.contend(ctx, p, [2]holder{one, other}, &a) })
				}); err != nil {
					return err
				}
			}
			r.report.messages = append(r.report.messages, messagesRecord{
				Kind: "messages", Client: c.client, Sharded: sharded,
				PerSecond: spreadOf(a.pairs), RedisMicros: spreadOf(a.redis), Scripts: spreadOf(a.scripts), Bus: spreadOf(a.bus),
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
						pause(run, failPause)
					}
				}
			})
		}
	}
	pause(ctx, r.window/4) // connections, subscriptions
	// To ask the nodes takes its time, in which the pairs go on. So both are looked at in the same order each time.
	start, begun := time.Now(), pairs.Load()
	before, err := p.spent(ctx)
	if err == nil {
		pause(ctx, r.window)
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
		for _, c := range r.job.chosen(at.place.contenders(false)) {
			if err := r.say("renewals", at.place, c); err != nil {
				return err
			}
			names := make([]string, r.job.holds)
			for i := range names {
				names[i] = at.name(i)
			}
			record := renewalsRecord{Kind: "renewals", Place: at.place.name, Names: at.names, Client: c.client, Holds: len(names)}
			if err := r.with(ctx, c, func(s holder) error { return r.keep(ctx, at.place, s, names, &record) }); err != nil {
				return err
			}
			r.report.renewals = append(r.report.renewals, record)
		}
	}
	return nil
}

// keep holds locks for a lease, and notes what that costs.
func (r *scaleRun) keep(ctx context.Context, p *place, s holder, names []string, record *renewalsRecord) (err error) {
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
	pause(ctx, listensAfter)
	if err := awaitQuiet(ctx); err != nil {
		return err
	}
	full, err := p.memory(ctx)
	if err != nil {
		return err
	}
	record.RedisBytes = float64(full-empty) / float64(len(names))
	before, err := p.spent(ctx)
	if err != nil {
		return err
	}
	pause(ctx, r.setup.lease)
	after, err := p.spent(ctx)
	if err != nil {
		return err
	}
	spent, passed := after.since(before), after.at.Sub(before.at)
	record.Calls = float64(spent.total().scripts) / passed.Seconds()
	record.RedisCPU, record.Busiest = share(0, spent.total().cpu, passed), share(0, spent.most(), passed)
	record.CPU, record.Lost = share(0, spent.own, passed), held.lost()
	return nil
}

// listensAfter is after which time a hold has subscribed to the news of a forced unlock.
const listensAfter = 1500 * time.Millisecond
