//go:build unix

package trials

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/rpc"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/robustness/history"
	"github.com/holdfast-go/holdfast/robustness/program"
	"github.com/holdfast-go/holdfast/rueidisdriver"
)

// orders are what a member is to do.
type orders struct {
	Process int // its number in the history
	Epoch   int64
	Seed    uint64
	History string // the file to write it to
	Look    string // the file with the moment of the last look at the clock
	Store   string // its socket
	Trace   bool
	Thief   bool // it deletes the locks of others

	Servers [][]string // the addresses; each list is of servers that know each other
	Master  string     // by which name sentinels know the primary; empty: there are none
	Via     map[string]string
	Rueidis bool

	Lease, Timeout time.Duration
	HandOver       bool
	Ack            int
	Runs           []runOrders
}

// runOrders are a program for one lock.
type runOrders struct {
	Kind, Lock string
	Seed       uint64
	Actors     int
	Force      bool
}

// monotonic is the machine's monotonic clock, in ns.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // there is no machine without it
	}
	return ts.Nano()
}

// member is a client process. It is the world of its actors, and their client.
type member struct {
	orders

	log     *history.Log
	began   time.Time      // one moment on the clock of the program, and
	at      history.Moment // on that of the trial
	store   stub
	clients []*holdfast.Client
	closing atomic.Bool
	failed  atomic.Bool
}

// restLimit is for how long actors may take to end what they have begun, without faults.
const restLimit = 60 * time.Second

// runMember is the whole process, and returns its exit code.
func runMember(path string) int {
	runtime.GOMAXPROCS(1) // so that nothing runs while looks at the clock are late
	m := &member{}
	if err := m.run(path); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		return 1
	}
	if m.failed.Load() {
		return 1
	}
	return 0
}

func (m *member) run(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&m.orders); err != nil {
		return err
	}
	file, err := os.OpenFile(m.History, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	m.log = history.NewLog(history.NewClock(func() int64 { return monotonic() - m.Epoch }), m.Process, file)
	for near := false; !near; near = time.Since(m.began) < 100*time.Microsecond {
		m.began, m.at = time.Now(), m.log.Now()
	}
	over := make(chan struct{})
	go func() { // ends with the process, or before
		defer close(over)
		_, _ = io.Copy(io.Discard, os.Stdin) // however it ends, the trial is over
	}()
	looking := make(chan struct{})
	var look sync.WaitGroup
	look.Go(func() { m.look(looking) })
	defer look.Wait()
	defer close(looking)
	client, err := rpc.Dial("unix", m.Store)
	if err != nil {
		return err
	}
	m.store = stub{client}
	closeAll, err := m.connect(over)
	if errors.Is(err, errOver) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := m.act(over); err != nil {
		return err
	}
	m.closing.Store(true)
	if err := closeAll(); err != nil {
		return err
	}
	_, err = m.log.Ops()
	return err
}

// act runs the programs until the trial is over.
func (m *member) act(over <-chan struct{}) error {
	var actors sync.WaitGroup
	var runs []*program.Run
	for _, o := range m.Runs {
		kind, err := kindNamed(o.Kind, m.clients)
		if err != nil {
			return err
		}
		run := &program.Run{
			Seed: o.Seed, Kind: kind, Locks: []string{o.Lock}, Lease: m.Lease, Timeout: m.Timeout, Fixed: shortestLease, Force: o.Force,
			Hurry: over, Log: m.log, World: m,
		}
		runs = append(runs, run)
		for i := range o.Actors {
			actors.Go(func() { run.Act(i) })
		}
	}
	<-over
	for _, run := range runs {
		run.Stop()
	}
	rested := make(chan struct{})
	go func() {
		defer close(rested)
		actors.Wait()
	}()
	select {
	case <-rested:
		return nil
	case <-time.After(restLimit):
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return fmt.Errorf("the actors have not come to rest in %v:\n%s", restLimit, stacks)
	}
}

const (
	lookEvery     = 5 * time.Millisecond
	shortestLease = 900 * time.Millisecond
	// pauseFrom is for how long a process has not run that has paused. A hold's context ends at least 11 ms before its key (no
	// lease of a trial is shorter than shortestLease), so a shorter one by itself makes no overlap; but on a busy machine
	// many of them come one after the other.
	pauseFrom = time.Millisecond
)

// look looks at the clock, and notes when the process has not been run: a look was late, and the process has not had the
// processor meanwhile. A look that is late because others of the process ran is none.
func (m *member) look(stop <-chan struct{}) {
	file, err := os.OpenFile(m.Look, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		m.Failf("%v", err)
		return
	}
	defer file.Close()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for last, had := m.log.Now(), processorTime(); ; {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		now, has := m.log.Now(), processorTime()
		if late := time.Duration(now-last) - lookEvery; late-(has-had) > pauseFrom {
			m.log.Span(history.Op{Kind: history.Paused, Client: 1}, last, now-history.Moment(has-had), history.OK)
		}
		last, had = now, has
		if _, err := file.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(now)), 0); err != nil {
			m.Failf("%v", err)
			return
		}
	}
}

// processorTime is for how long this process has run.
func processorTime() time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

var errOver = errors.New("the trial is over")

// connect makes the clients. It returns errOver if the trial is over before.
func (m *member) connect(over <-chan struct{}) (closeAll func() error, err error) {
	redis.SetLogger(silent{})
	rng := rand.New(rand.NewPCG(m.Seed, 0))
	var closers []func() error
	for _, addrs := range m.Servers {
		d, stop, del, err := m.dial(addrs)
		for err != nil { // it is black-holed, perhaps
			select {
			case <-over:
				return nil, errOver
			case <-time.After(50 * time.Millisecond):
			}
			d, stop, del, err = m.dial(addrs)
		}
		options := []holdfast.ClientOption{holdfast.WithLease(m.Lease), holdfast.WithTimeout(m.Timeout)}
		if !m.HandOver {
			options = append(options, holdfast.WithoutHandOver())
		}
		if m.Ack > 0 {
			options = append(options, holdfast.WithReplicaAck(m.Ack, m.Timeout/4))
		}
		if rng.IntN(2) == 0 {
			options = append(options, holdfast.WithoutIdentity())
		}
		c, err := holdfast.New(&watched{Driver: d, m: m, del: del}, options...)
		if err != nil {
			return nil, err
		}
		m.clients = append(m.clients, c)
		closers = append(closers, func() error {
			op := m.log.Begin(history.Op{Kind: history.Close, Client: 1})
			err := c.Close()
			m.log.End(op, program.OutcomeOf(err, false), nil)
			if errors.Is(err, context.DeadlineExceeded) {
				err = nil // connections that were lost a moment ago may still be missing
			}
			return errors.Join(err, stop())
		})
	}
	return func() error {
		var failed []error
		for _, closeOne := range closers {
			failed = append(failed, closeOne())
		}
		return errors.Join(failed...)
	}, nil
}

// silent is the log of the Redis client: lost connections are no news here.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// dialLimit is that of the Redis clients, and for how long they wait for an answer.
const dialLimit = time.Second

// dial makes a Redis client, and what is needed of it.
func (m *member) dial(addrs []string) (d driver.Driver, stop func() error, del func(ctx context.Context, key string) error, err error) {
	via := func(addr string) string {
		if proxy := m.Via[addr]; proxy != "" {
			return proxy
		}
		return addr
	}
	if !m.Rueidis {
		dialer := net.Dialer{Timeout: dialLimit}
		rdb := redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: addrs, MasterName: m.Master, IsClusterMode: len(addrs) > 1 && m.Master == "",
			DialTimeout: dialLimit, ReadTimeout: dialLimit, WriteTimeout: dialLimit,
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, via(addr))
			},
		})
		return goredisdriver.New(rdb), rdb.Close, func(ctx context.Context, key string) error { return rdb.Del(ctx, key).Err() }, nil
	}
	option := rueidis.ClientOption{
		InitAddress: addrs, DisableCache: true, ConnWriteTimeout: dialLimit, Dialer: net.Dialer{Timeout: dialLimit},
		DialCtxFn: func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", via(addr))
		},
	}
	option.Sentinel.MasterSet = m.Master
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, nil, nil, err
	}
	return rueidisdriver.New(client), func() error { client.Close(); return nil }, func(ctx context.Context, key string) error {
		return client.Do(ctx, client.B().Del().Key(key).Build()).Error()
	}, nil
}

// names are those of the trial's locks.
func (m *member) names() (all []string) {
	for _, o := range m.Runs {
		all = append(all, o.Lock)
	}
	return all
}

// prompt is how long a call takes at most that is answered at once.
const prompt = 200 * time.Millisecond

// watched is a driver that notes which calls have failed, or took long: meanwhile they may take a lock that nobody gets, or
// leave one as it was.
type watched struct {
	driver.Driver

	m   *member
	del func(ctx context.Context, key string) error
}

func (w *watched) Eval(ctx context.Context, call driver.Call) (any, error) {
	w.steal(ctx, call)
	from := w.m.log.Now()
	reply, err := w.Driver.Eval(ctx, call)
	w.note(call, from, err)
	return reply, err
}

func (w *watched) EvalReplicated(ctx context.Context, call driver.Call, replicas int, timeout time.Duration) (any, int, error) {
	w.steal(ctx, call)
	from := w.m.log.Now()
	reply, acknowledged, err := w.Driver.EvalReplicated(ctx, call, replicas, timeout)
	w.note(call, from, err)
	return reply, acknowledged, err
}

func (w *watched) note(call driver.Call, from history.Moment, err error) {
	until := w.m.log.Now()
	switch {
	case !program.Takes(call) && !program.GivesBack(call):
		return
	case err != nil:
		until += history.Moment(program.Hinders(call, w.m.names(), w.m.Lease, w.m.Timeout))
	case until-from < history.Moment(prompt):
		return
	}
	w.m.log.Span(history.Op{Kind: history.Unanswered, Lock: program.About(call, w.m.names()), Client: 1, Until: until}, from, w.m.log.Now(), history.Unknown)
}

// steal deletes a lock that is about to be asked for, as a release would that does not look whose it is: a third of the time, on
// all servers at once.
func (w *watched) steal(ctx context.Context, call driver.Call) {
	if w.m.Thief && program.Takes(call) && w.m.log.Now()/history.Moment(200*time.Millisecond)%3 == 0 {
		_ = w.del(ctx, call.Keys[0]) // if it fails, others do not
	}
}

// The client of all actors.

func (m *member) Locks() *holdfast.Client { return m.clients[0] }
func (m *member) Number() int             { return 1 }
func (m *member) Usable() bool            { return !m.closing.Load() }
func (m *member) Dead() bool              { return false }
func (m *member) AddHolds(int)            {}

// The world of all actors.

func (m *member) Client(int) program.Client { return m }

func (m *member) Leave(_ program.Client, d program.Detached, findable bool) {
	if !findable {
		return
	}
	if err := m.store.leave(d); err != nil {
		m.Failf("%v", err)
	}
}

func (m *member) Take(run *program.Run) (program.Detached, bool) {
	d, ok, err := m.store.take(run.Locks[0])
	if err != nil {
		m.Failf("%v", err)
	}
	return d, ok
}

func (m *member) Write(lock string, token int64) history.Outcome { return m.store.write(lock, token) }
func (m *member) NoteTrusted(*program.Hold)                      {}
func (m *member) NoteHandedOut(program.Client, string, int)      {}
func (m *member) NoteLost(int64, error)                          {}

func (m *member) Moment(t time.Time) history.Moment {
	if t.IsZero() {
		return history.Never
	}
	return m.at + history.Moment(t.Sub(m.began))
}

func (m *member) Tracef(format string, args ...any) {
	if m.Trace {
		fmt.Fprintf(os.Stderr, "%v process %d: %s\n", m.log.Now(), m.Process, fmt.Sprintf(format, args...))
	}
}

func (m *member) Failf(format string, args ...any) {
	m.failed.Store(true)
	fmt.Fprintf(os.Stderr, "FAILED: at %v: %s\n", m.log.Now(), fmt.Sprintf(format, args...))
}
