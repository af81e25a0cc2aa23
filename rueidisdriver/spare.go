package rueidisdriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// spareIdle is how long a spare connection is kept that no call uses. Tests change it.
var spareIdle = time.Second

const (
	// spareLife is how long calls use a spare connection. Then they try the client's own again.
	spareLife = 20 * time.Second
	// findLimit bounds the search for one.
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

// spare is a connection of the blocking pool that calls use while the others are in doubt.
type spare struct {
	conn  rueidis.DedicatedClient
	known []string // the addresses of the servers that the client used then
	until time.Time
	used  atomic.Bool // since retire has last looked
}

// errGivenUp is the error of a call on a spare connection that was closed meanwhile.
var errGivenUp = errors.New("rueidisdriver: the connection was given up")

// node is the only server, or a node of a cluster, with its spare connection.
type node struct {
	driver  *Driver
	addr    string                // of a node of a cluster; "": of the only server, which may change
	spare   atomic.Pointer[spare] // nil: calls use the client's own connections
	finding chan struct{}         // holds a value while a connection is searched for; its capacity is 1

	mu     sync.Mutex // held while reserve searches
	failed time.Time  // when reserve last found none; guarded by mu
}

// reserve returns the spare connection, and looks for one if there is none. After it has found none, others
// do not search for a while.
func (n *node) reserve() rueidis.DedicatedClient {
	n.mu.Lock()
	defer n.mu.Unlock()
	conn := n.spareConn()
	if conn != nil || time.Since(n.failed) < findLimit {
		return conn
	}
	n.renew()
	if conn = n.spareConn(); conn == nil {
		n.failed = time.Now()
	}
	return conn
}

// spareConn returns the connection to use in place of the client's own, or nil.
func (n *node) spareConn() rueidis.DedicatedClient {
	s := n.spare.Load()
	if s == nil {
		return nil
	}
	if moved(n.driver.client, s.known) { // such as after a failover
		n.replaceSpare(s, nil)
		return nil
	}
	s.used.Store(true)
	return s.conn
}

// giveUp gives up the spare connection if it is this one.
func (n *node) giveUp(conn rueidis.DedicatedClient) {
	if s := n.spare.Load(); s != nil && s.conn == conn {
		n.replaceSpare(s, nil)
	}
}

// replaceSpare gives up a spare connection for another one, or for none.
func (n *node) replaceSpare(old, s *spare) {
	if n.spare.CompareAndSwap(old, s) && old != nil {
		go end(old.conn) // within a second or so
	}
}

// renew finds a connection for the calls that follow. If it finds none, they use the client's own.
func (n *node) renew() {
	old, known := n.spare.Load(), []string{n.addr}
	if n.addr == "" {
		known = addresses(n.driver.client)
	}
	conn, _ := n.find(false)
	if conn == nil {
		n.replaceSpare(old, nil)
		return
	}
	s := &spare{conn: conn, known: known, until: time.Now().Add(spareLife)}
	n.replaceSpare(old, s)
	time.AfterFunc(spareIdle, func() { n.retire(s) })
}

// retire gives up a spare connection that is not used any more, or looks again later.
func (n *node) retire(s *spare) {
	switch {
	case n.spare.Load() != s:
	case s.used.Swap(false) && time.Now().Before(s.until):
		time.AfterFunc(spareIdle, func() { n.retire(s) })
	default:
		n.replaceSpare(s, nil)
	}
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

// try has a connection show that it leads to a primary: a replica refuses WAIT. Without replicas to
// wait for, it does nothing. To get the connection took so long: a new one takes two round trips or
// more, an idle one takes none.
func (f *finding) try(this found, took time.Duration) bool {
	conn := this.conn
	ctx, cancel := context.WithTimeout(context.Background(), findLimit)
	defer cancel()
	sent := time.Now()
	err := conn.Do(ctx, conn.B().Wait().Numreplicas(0).Timeout(1).Build().Pin()).Error()
	reply, answered := rueidis.IsRedisErr(err)
	if err == nil || answered && (f.replicasDo || !isNoPrimary(reply.Error())) {
		select {
		case f.found <- this:
			return true
		case <-f.ctx.Done():
		}
	}
	var op *net.OpError
	switch {
	case answered && took > time.Since(sent):
		f.replicas.Add(1)
	case errors.As(err, &op) && op.Op == "dial":
		f.cancel() // the next one would meet the same
	}
	go end(conn)
	return false
}

// isNoPrimary reports whether a refusal of WAIT says that the server is none, or not yet.
func isNoPrimary(reply string) bool {
	return strings.Contains(reply, "replica") || strings.HasPrefix(reply, "LOADING") || strings.HasPrefix(reply, "MASTERDOWN")
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
