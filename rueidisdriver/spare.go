package rueidisdriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// spareIdle is the pause between proofs while there is a spare, and between questions to the Sentinels after a proof. A spare that no
// call has used in that time is closed. Tests change it.
var spareIdle = time.Second

const (
	// findLimit bounds a search for a spare connection, and a proof.
	findLimit = time.Second
	// firstPatience and lastPatience are how long the search waits for the first connection, and for
	// the last of many, before it tries one more.
	firstPatience = 32 * time.Millisecond
	lastPatience  = time.Millisecond
	// maxReplicas is how many new connections may lead to a replica, and maxTries how many connections
	// a search tries.
	maxReplicas = 4
	maxTries    = 1024
)

// spare replaces the client's own connections while these are in doubt. It is a connection of the blocking pool or, behind
// Sentinel, a new client. Without either, the client's own connections are unnamed, and calls use them.
type spare struct {
	conn  rueidis.CoreClient // one of the next two; nil: unnamed
	taken rueidis.DedicatedClient
	fresh rueidis.Client
	known []string     // the addresses of the servers that the client used then
	used  atomic.Bool  // since keep has last looked; unnamed: verify runs, or did less than spareIdle ago
	refs  atomic.Int64 // one for the node that refers to it, and one for each call under way
	ended sync.Once
}

// newSpare returns a spare that one node refers to. If there is a new client, it does not need the connection.
func newSpare(taken rueidis.DedicatedClient, fresh rueidis.Client, known []string) *spare {
	s := &spare{conn: taken, taken: taken, known: known}
	if fresh != nil {
		if taken != nil {
			go end(taken)
		}
		s.conn, s.taken, s.fresh = fresh, nil, fresh
	}
	s.refs.Store(1)
	return s
}

// release ends the spare when nothing refers to it.
func (s *spare) release() {
	if s.refs.Add(-1) == 0 {
		s.end()
	}
}

// end closes the spare. Calls under way end with an error.
func (s *spare) end() {
	s.ended.Do(func() {
		switch {
		case s.fresh != nil:
			go s.fresh.Close()
		case s.taken != nil:
			go end(s.taken) // within a second or so
		}
	})
}

// isElsewhere reports whether the Sentinels name another primary than the one that a client uses. If SendToReplicas is set, a client
// uses several servers, and does not say which one is its primary: those that are not named must be replicas.
func (s *spare) isElsewhere(client rueidis.Client) bool {
	if s.fresh == nil {
		return false
	}
	named := addresses(s.fresh)
	if moved(client, named) {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), findLimit)
	defer cancel()
	for addr, server := range client.Nodes() {
		if !slices.Contains(named, addr) && !errors.Is(isPrimary(ctx, server, ""), errReplica) {
			return true
		}
	}
	return false
}

// errGivenUp is the error of a call on a spare connection that was closed meanwhile.
var errGivenUp = errors.New("rueidisdriver: the connection was given up")

// node is the only server, or a node of a cluster, with its spare.
type node struct {
	driver  *Driver
	addr    string                // of a node of a cluster; "": of the only server, which may change
	spare   atomic.Pointer[spare] // nil: all is well, and calls use the client's own connections; none: there is doubt
	finding chan struct{}         // holds a value while a connection is searched for; its capacity is 1
	asking  chan struct{}         // likewise while Sentinels are asked

	mu     sync.Mutex // held during a search for a spare
	failed time.Time  // when one last found none; guarded by mu
}

// none is the value of node.spare while there is doubt and no spare.
var none = new(spare)

// borrow returns the spare that calls are to use, or nil if they use the client's own connections. If there is doubt and no spare,
// it searches for one, unless a search found none less than findLimit ago. The caller releases the spare.
func (n *node) borrow() *spare {
	s := n.spare.Load()
	switch {
	case s == nil:
		return nil
	case s == none:
		return n.reserve()
	case moved(n.driver.client, s.known): // such as after a failover
		n.retire(s, nil)
		return nil
	case s.conn == nil:
		if !s.used.Swap(true) {
			go n.verify(s) // ends by sentinelsLimit
		}
		return nil
	case s.borrow():
		return s
	}
	return n.borrow() // it was given up in that instant
}

// borrow adds a reference, unless the spare has ended.
func (s *spare) borrow() bool {
	for refs := s.refs.Load(); refs > 0; refs = s.refs.Load() {
		if s.refs.CompareAndSwap(refs, refs+1) {
			s.used.Store(true)
			return true
		}
	}
	return false
}

// borrowFresh borrows the spare if it is a new client, and otherwise returns nil.
func (n *node) borrowFresh() *spare {
	s := n.spare.Load()
	if s == nil || s.fresh == nil || !s.borrow() {
		return nil
	}
	return s
}

// reserve is borrow where the caller knows that there is doubt. On a cluster slots are in doubt, and n.spare does not show that.
func (n *node) reserve() *spare {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.spare.Load(); s == nil || s == none {
		if time.Since(n.failed) < findLimit {
			return nil
		}
		n.search()
	}
	if s := n.spare.Load(); s != nil && s.conn != nil && s.borrow() {
		return s
	}
	return nil
}

// renew finds a spare for the calls that follow, in place of one that is in doubt.
func (n *node) renew() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.search()
}

// search finds a spare. If there is none, calls use the client's own connections, and the doubt stays unless these are proven.
// mu is held.
func (n *node) search() {
	known, proven := []string{n.addr}, n.askOwn()
	if n.addr == "" {
		known = addresses(n.driver.client)
	}
	named := make(chan rueidis.Client, 1)
	go func() { named <- n.askSentinels() }() // ends by sentinelsLimit
	conn, _ := n.find(false)
	fresh := <-named
	if conn == nil && fresh == nil {
		n.failed = time.Now()
		n.install(none)
		n.conclude(none, known, <-proven)
		return
	}
	s := newSpare(conn, fresh, known)
	n.install(s)
	go n.keep(s, proven)
}

// install makes calls use a spare. Calls under way on the previous spare fail, because that is in doubt.
func (n *node) install(s *spare) {
	if old := n.spare.Swap(s); old != nil && old != none {
		old.end()
	}
}

// retire replaces a spare by next, which may be none or nil. Calls under way on it go on. It reports false if the spare has been
// replaced already, such as by a search after a newer doubt.
func (n *node) retire(s, next *spare) bool {
	if !n.spare.CompareAndSwap(s, next) {
		return false
	}
	if s != none {
		s.release()
	}
	return true
}

// giveUp drops a spare that is in doubt. Calls under way on it fail.
func (n *node) giveUp(s *spare) {
	if n.spare.CompareAndSwap(s, none) {
		s.end()
	}
}

// keep waits for a proof. If that does not make calls use the client's own connections, it starts the next one after spareIdle. A
// spare that no call has used in that time is retired, and the doubt stays.
func (n *node) keep(s *spare, proven <-chan error) {
	if n.conclude(s, s.known, <-proven) {
		return
	}
	time.AfterFunc(spareIdle, func() {
		switch {
		case n.spare.Load() != s:
		case s.used.Swap(false):
			n.keep(n.askAgain(s), n.askOwn())
		default:
			n.retire(s, none)
		}
	})
}

// conclude retires a spare if a proof with this result makes calls use the client's own connections again, and reports whether it
// does. The doubt stays if a Sentinel could name another primary, and none has answered: a former primary answers like a primary
// until a Sentinel makes it a replica.
func (n *node) conclude(s *spare, known []string, result error) bool {
	if !endsDoubt(result) || result == nil && s.isElsewhere(n.driver.client) {
		return false
	}
	var next *spare
	if _, asks := n.sentinelOption(); asks && s.fresh == nil && result == nil {
		next = newSpare(nil, nil, known)
	}
	n.retire(s, next)
	return true
}

// verify asks the Sentinels which server is the primary while the client's own connections are unnamed. If none answers, the first
// call after spareIdle asks again.
func (n *node) verify(s *spare) {
	if next := n.askAgain(s); next != s {
		n.keep(next, n.askOwn())
		return
	}
	time.AfterFunc(spareIdle, func() { s.used.Store(false) })
}

// askAgain asks the Sentinels which server is the primary, unless one has answered already. It returns the spare to keep: a new
// client of that primary, or s.
func (n *node) askAgain(s *spare) *spare {
	if s.fresh != nil {
		return s
	}
	fresh := n.askSentinels()
	if fresh == nil {
		return s
	}
	next := newSpare(nil, fresh, s.known)
	if !n.retire(s, next) {
		next.release()
		return s
	}
	return next
}

// endsDoubt reports whether calls use the client's own connections again after a proof with this result. They also do when the
// client, or one of its connections, was closed: then a call has to report that.
func endsDoubt(err error) bool { return err == nil || errors.Is(err, rueidis.ErrClosing) }

// errBySlot is the result of askOwn on a cluster, where slots are proven and not nodes: see slotsInDoubt.
var errBySlot = errors.New("rueidisdriver: slots are proven")

// askOwn starts a proof of the client's own connections to the only server. The channel receives its result.
func (n *node) askOwn() <-chan error {
	proven := make(chan error, 1)
	if n.addr != "" {
		proven <- errBySlot
		return proven
	}
	go func() { proven <- n.driver.proveOwn("holdfast", singleProofs) }() // ends by findLimit
	return proven
}

// find returns a connection that answers, and leads to a primary unless replicas will do; nil if there is none in
// time. The caller ends it, or releases it to the pool.
func (n *node) find(replicasDo bool) (conn rueidis.DedicatedClient, release func()) {
	client := n.driver.client
	if n.addr != "" {
		client = client.Nodes()[n.addr]
	}
	if client == nil {
		return nil, nil
	}
	f := &finding{client: client, replicasDo: replicasDo, found: make(chan found)}
	f.ctx, f.cancel = context.WithTimeout(context.Background(), findLimit)
	defer f.cancel()
	select {
	case n.finding <- struct{}{}:
	case <-f.ctx.Done(): // an earlier search waits for a place in the pool
		return nil, nil
	}
	go func() { // ends as run does
		defer func() { <-n.finding }()
		f.run()
	}()
	select {
	case found := <-f.found:
		return found.conn, found.release
	case <-f.ctx.Done():
		return nil, nil
	}
}

// found is what a search has found.
type found struct {
	conn    rueidis.DedicatedClient
	release func()
}

// finding is a search for a connection that answers, and leads to a primary.
type finding struct {
	client     rueidis.Client
	replicasDo bool
	ctx        context.Context // ends with the search
	cancel     context.CancelFunc
	found      chan found
	tries      sync.WaitGroup

	replicas atomic.Int32 // new connections that lead to a replica
}

// run takes connections from the pool, of which idle ones come first. Each has less time than the
// one before, so a hundred dead ones take a fifth of a second. New ones are made one after another:
// a server that stands still does not get more than one. It ends when a connection
// is found, by findLimit, or by the client's timeout for a dial.
func (f *finding) run() {
	defer f.cancel()
	patience := firstPatience
	for tries := 0; tries < maxTries && f.replicas.Load() < maxReplicas && f.ctx.Err() == nil; tries++ {
		asked := time.Now()
		conn, release := f.client.Dedicate()
		took := time.Since(asked)
		failed := make(chan struct{})
		f.tries.Go(func() {
			if !f.try(found{conn, release}, took) {
				close(failed)
			}
		})
		timer := time.NewTimer(patience)
		select {
		case <-failed:
		case <-timer.C:
		case <-f.ctx.Done():
			return
		}
		timer.Stop()
		patience = max(patience/2, lastPatience)
	}
	failed := make(chan struct{}) // all of them
	go func() { f.tries.Wait(); close(failed) }()
	select {
	case <-failed:
	case <-f.ctx.Done():
	}
}

// try has a connection show that it leads to a primary. To get the connection took so long: a new one takes two round trips or
// more, an idle one takes none.
func (f *finding) try(this found, took time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), findLimit)
	defer cancel()
	sent := time.Now()
	err := isPrimary(ctx, this.conn, "")
	replica := errors.Is(err, errReplica)
	if err == nil || replica && f.replicasDo {
		select {
		case f.found <- this:
			return true
		case <-f.ctx.Done():
		}
	}
	switch {
	case replica && took > time.Since(sent):
		f.replicas.Add(1)
	case isDial(err):
		f.cancel() // the next one would meet the same
	}
	go end(this.conn)
	return false
}

// servers returns the addresses that the client uses, and a dialer without TLS. The client's own dialer is not known; but a server
// sends nothing before a TLS handshake.
func (d *Driver) servers() (addrs []string, dial driverkit.Dial) {
	return addresses(d.client), func(ctx context.Context, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
}

// addresses returns those of the servers that a client uses.
func addresses(client rueidis.Client) (known []string) {
	for addr := range client.Nodes() {
		known = append(known, addr)
	}
	return known
}

// moved reports whether the client uses other servers than those that are known.
func moved(client rueidis.Client, known []string) bool {
	if len(known) == 0 {
		return false
	}
	nodes := client.Nodes()
	for _, addr := range known {
		if _, ok := nodes[addr]; !ok {
			return true
		}
	}
	return false
}

// explain says of an error whether it can pass, as far as the whole client knows, and why the server has closed a connection, as
// far as it says.
func (d *Driver) explain(err error) error {
	closing := err != nil && errors.Is(err, rueidis.ErrClosing)
	closed := d.closed.Note(closing, false)
	if !closing {
		return d.refused.Explain(err, d.servers)
	}
	var failed *driver.Error
	errors.As(err, &failed)
	why := "there is no connection, or the program has closed the Redis client that holdfast uses"
	if closed {
		why = "the program has closed the Redis client that holdfast uses; close holdfast's client first"
	}
	return &driver.Error{MayHaveRun: failed.MayHaveRun, Transient: failed.Transient && !closed, Err: fmt.Errorf("%s: %w", why, failed.Err)}
}
