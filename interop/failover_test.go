package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// outage is how long a failover may take from beginning to end, until both sides
// work with the new primary.
const outage = 30 * time.Second

// failoverLease is long enough for a failover.
const failoverLease = 20 * time.Second

// Sentinel makes a replica the primary while either side holds a lock of each kind
// and the other one waits for it. Both sides keep what they hold through the
// failover, and hand it over afterwards.
func TestFailover(t *testing.T) {
	t.Parallel() // it waits for most of its time
	for _, version := range Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinel(t, 1, 3)
			w := &world{version: version, servers: &servers{
				config: Config{Mode: Sentinel, Addresses: s.Addrs(), Master: s.MasterName()}, nodes: s.Nodes,
			}}
			w.connect(t)
			w.java, w.golang = w.peersWith(t, failoverLease, version == Versions[1])
			var all []*transfer
			for _, k := range kinds {
				if k.from4 && w.redisson3() {
					continue
				}
				for _, sides := range [][2]*Peer{{w.java, w.golang}, {w.golang, w.java}} {
					d := &duel{T: t, w: w, k: k, a: sides[0], b: sides[1]}
					d.threads = strings.ReplaceAll(fmt.Sprintf("%s/%v", k.title(), d.a), " ", "_")
					x := &transfer{duel: d, name: d.name(strings.ReplaceAll(fmt.Sprintf("%s-%v", k.title(), d.a), " ", "_"))}
					x.begin()
					all = append(all, x)
				}
			}
			w.replicated(t)
			s.Failover(t)
			w.onePrimary(t)
			for _, x := range all {
				t.Run(fmt.Sprintf("%s/%v to %v", x.k.title(), x.a, x.b), func(t *testing.T) {
					x.T = t
					x.end()
				})
			}
		})
	}
}

// transfer is of a lock, permit or count, from one side to the other.
type transfer struct {
	*duel
	name string
	id   string     // of a's permit
	got  chan error // b's answer
}

// begin has a hold it, and b wait.
func (x *transfer) begin() {
	var wait func() (string, error)
	switch x.k.name {
	case "semaphore":
		x.do(x.a, "T", "set", x.name, 1)
		x.do(x.a, "T", "acquire", x.name, 1)
		wait = x.ask(x.b, "T", "acquire", x.k.name, x.name, 1)
	case "permits":
		x.do(x.a, "T", "set", x.name, 1)
		x.id = x.do(x.a, "T", "acquire", x.name, 120_000)
		wait = x.ask(x.b, "T", "tryacquire", x.k.name, x.name, 120_000, 120_000)
	case "latch":
		x.do(x.a, "T", "set", x.name, 1)
		wait = x.ask(x.b, "T", "await", x.k.name, x.name, 120_000)
	default:
		x.do(x.a, "T", "lock", x.name)
		wait = x.waits(x.b, "T", x.name)
	}
	x.awaits(wait)
}

// awaits keeps b's answer for end.
func (x *transfer) awaits(wait func() (string, error)) {
	x.got = make(chan error, 1)
	go func() {
		_, err := within(4*outage, wait)
		x.got <- err
	}()
}

// end has a give it back on the new primary, and b get it. Java's waiters have lost
// their subscription meanwhile, and may sleep until the time to live has passed that
// they read before (L1), which is no longer than the watchdog's lease.
func (x *transfer) end() {
	select {
	case err := <-x.got:
		if err == nil || x.k.name != "spin" || !x.b.Java {
			x.Fatalf("b does not wait for a: %v", err)
		}
		// Redisson's spin lock gives up when Redis does not answer.
		x.awaits(x.ask(x.b, "T", "lock", x.k.name, x.name))
	default:
	}
	switch x.k.name {
	case "semaphore":
		x.eventually(x.a, "release", 1)
	case "permits":
		x.eventually(x.a, "release", x.id)
	case "latch":
		x.eventually(x.a, "down")
	default:
		if x.k.whole {
			x.want(x.eventually(x.a, "held"), "true")
		}
		x.eventually(x.a, "unlock")
	}
	start := time.Now() // a may have needed its time to find the new primary
	if err := <-x.got; err != nil {
		x.Errorf("after %v: %v", time.Since(start), err)
	}
	most := asks + outage/3 // ours ask every 3 s, once they are connected again
	if x.b.Java {
		most += failoverLease
	}
	if took := time.Since(start); took > most {
		x.Errorf("handed over after %v", took)
	}
}

// eventually has a thread do something that fails as long as there is no primary.
func (x *transfer) eventually(p *Peer, verb string, more ...any) string {
	x.Helper()
	for deadline := time.Now().Add(outage); ; time.Sleep(100 * time.Millisecond) {
		value, err := within(outage, x.ask(p, "T", verb, x.k.name, x.name, more...))
		if err == nil {
			return value
		}
		if time.Now().After(deadline) {
			x.Fatal(err)
		}
	}
}

// onePrimary returns when the old primary has learnt that it is none. Until then a
// client that has not learnt it either may release a lock there, which is lost.
func (s *servers) onePrimary(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(outage); ; time.Sleep(100 * time.Millisecond) {
		primaries := 0
		for _, node := range s.nodes {
			rdb := redis.NewClient(&redis.Options{Addr: node.Addr()})
			role, err := rdb.Do(background, "ROLE").Slice()
			rdb.Close()
			if err != nil {
				t.Fatal(err)
			}
			if role[0] == "master" {
				primaries++
			}
		}
		if primaries == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d primaries after %v", primaries, outage)
		}
	}
}

// replicated returns when the replica has everything. WAIT is about what its own
// connection has written.
func (s *servers) replicated(t *testing.T) {
	t.Helper()
	primary := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: s.config.Master, SentinelAddrs: s.config.Addresses, PoolSize: 1,
	})
	defer primary.Close()
	conn := primary.Conn()
	defer conn.Close()
	if err := conn.Set(background, "interop:all-of-it", 1, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Do(background, "WAIT", 1, patience.Milliseconds()).Int()
	if err != nil || n < 1 {
		t.Fatalf("%d replicas have it, %v", n, err)
	}
}
