//go:build unix

package trials

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// fault is one kind of fault.
type fault struct {
	name   string
	lossy  bool                // of class b
	on     func(w *world) bool // where it can be; nil: everywhere
	strike func(s *strike)     // inflicts it, and undoes it before it returns
}

// strike is one fault that is inflicted.
type strike struct {
	*trial

	rng    *rand.Rand
	place  *place             // of a process, and its network
	hit    []*redistest.Proxy // of the network: all of the place, or one
	server *redistest.Server  // of servers: the one that is meant
	lasts  time.Duration
}

func durable(w *world) bool    { return w.durable }
func failsOver(w *world) bool  { return w.sentinel != nil || w.cluster != nil }
func moves(w *world) bool      { return w.cluster != nil }
func hasClock(w *world) bool   { return len(w.clocks) > 0 }
func byItself(w *world) bool   { return !failsOver(w) }
func loseEasily(w *world) bool { return !failsOver(w) && !w.durable }

// processFaults hit a member.
var processFaults = []fault{
	{name: "process killed", strike: func(s *strike) {
		s.kill(s.place)
		time.Sleep(s.lasts / 4)
		s.start(s.place)
	}},
	{name: "process stopped, shorter than a lease", strike: func(s *strike) {
		s.pause(s.place, min(s.lasts, time.Duration(float64(s.lease)*(0.1+s.rng.Float64()/2))))
	}},
	{name: "process stopped past its leases", lossy: true, strike: func(s *strike) {
		s.pause(s.place, time.Duration(float64(s.lease)*(1.1+s.rng.Float64())))
	}},
}

// networkFaults hit a member's connections.
var networkFaults = []fault{
	{name: "connections reset", strike: func(s *strike) { s.proxies(func(p *redistest.Proxy) { p.Cut() }) }},
	{name: "connections refused", strike: func(s *strike) {
		s.proxies(func(p *redistest.Proxy) { p.Refuse(true); p.Cut() })
		time.Sleep(s.lasts)
		s.proxies(func(p *redistest.Proxy) { p.Refuse(false) })
	}},
	{name: "black hole, both ways", strike: func(s *strike) { s.blackHole(redistest.Both) }},
	{name: "black hole, requests", strike: func(s *strike) { s.blackHole(redistest.ToServer) }},
	{name: "black hole, replies", strike: func(s *strike) { s.blackHole(redistest.ToClient) }},
	{name: "delay and jitter", strike: func(s *strike) {
		for end := time.Now().Add(s.lasts); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			s.proxies(func(p *redistest.Proxy) {
				p.Delay(redistest.ToServer, time.Duration(s.rng.Int64N(int64(80*time.Millisecond))))
				p.Delay(redistest.ToClient, time.Duration(s.rng.Int64N(int64(80*time.Millisecond))))
			})
		}
		s.proxies(func(p *redistest.Proxy) { p.Delay(redistest.Both, 0) })
	}},
	{name: "reply lost after execution", strike: func(s *strike) {
		then := []redistest.Aftermath{redistest.ThenSilence, redistest.ThenReset}[s.rng.IntN(2)]
		s.proxies(func(p *redistest.Proxy) {
			p.SwallowNextReply(func(request []byte) bool {
				args := redistest.Args(request)
				return len(args) > 0 && strings.HasPrefix(strings.ToLower(args[0]), "eval")
			}, then)
		})
	}},
}

// proxies does something to the proxies that the strike hits.
func (s *strike) proxies(do func(p *redistest.Proxy)) {
	for _, p := range s.hit {
		do(p)
	}
}

func (s *strike) blackHole(dir redistest.Direction) {
	s.proxies(func(p *redistest.Proxy) { p.BlackHole(dir, true) })
	time.Sleep(s.lasts)
	s.proxies(func(p *redistest.Proxy) { p.BlackHole(dir, false) })
}

// Faults that are not in each trial that could have them.
const (
	busy           = "busy with a script"
	clockSet       = "clock set"
	restartedEmpty = "restarted without its data"
	allLost        = "all data lost"
)

// serverFaults hit a server.
var serverFaults = []fault{
	{name: "server stopped", strike: func(s *strike) {
		s.server.Stop()
		time.Sleep(s.lasts)
		s.server.Cont()
	}},
	{name: "server killed, and restarted with its data", on: durable, strike: func(s *strike) { s.restart() }},
	{name: "clients paused", strike: func(s *strike) {
		s.w.ask(s.server, "CLIENT", "PAUSE", ms(s.lasts), []string{"ALL", "WRITE"}[s.rng.IntN(2)])
		time.Sleep(s.lasts)
	}},
	{name: "normal clients killed", strike: func(s *strike) { s.w.ask(s.server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }},
	{name: "subscribers killed", strike: func(s *strike) { s.w.ask(s.server, "CLIENT", "KILL", "TYPE", "pubsub") }},
	{name: "scripts flushed", strike: func(s *strike) { s.w.ask(s.server, "SCRIPT", "FLUSH") }},
	{name: "output buffers overrun", strike: func(s *strike) { s.overrun() }},
	{name: "memory full", strike: func(s *strike) { s.setting("maxmemory", "1", "0") }},
	{name: "writes refused", strike: func(s *strike) { s.setting("min-replicas-to-write", "9", "0") }},
	{name: "no right to run scripts", strike: func(s *strike) {
		s.w.ask(s.server, "ACL", "SETUSER", "default", "-eval", "-evalsha")
		time.Sleep(s.lasts)
		s.w.ask(s.server, "ACL", "SETUSER", "default", "+@all")
	}},
	{name: "no right to any channel", strike: func(s *strike) {
		s.w.ask(s.server, "ACL", "SETUSER", "default", "resetchannels")
		time.Sleep(s.lasts)
		s.w.ask(s.server, "ACL", "SETUSER", "default", "allchannels")
	}},
	{name: busy, strike: func(s *strike) { s.busy() }},
	{name: "slot moved", on: moves, strike: func(s *strike) {
		move := s.w.cluster.BeginMove(s.w.t, s.locks[s.rng.IntN(len(s.locks))].Lock)
		time.Sleep(s.lasts / 4)
		for _, key := range move.Keys(s.w.t) {
			move.Key(s.w.t, key)
			time.Sleep(s.lasts / 16)
		}
		move.Finish(s.w.t)
	}},
	{name: clockSet, lossy: true, on: hasClock, strike: (*strike).setClock},
	{name: restartedEmpty, lossy: true, on: loseEasily, strike: (*strike).restart},
	{name: allLost, lossy: true, on: byItself, strike: func(s *strike) { s.w.ask(s.server, "FLUSHALL") }},
	{name: "failover by order", lossy: true, on: failsOver, strike: (*strike).failOver},
	{name: "failover, primary killed", lossy: true, on: failsOver, strike: func(s *strike) {
		s.server.Kill()
		s.awaitFailover()
		s.server.Restart()
	}},
	{name: "failover, primary stopped", lossy: true, on: failsOver, strike: func(s *strike) {
		s.server.Stop()
		s.awaitFailover()
		s.server.Cont() // it still believes that it is the primary, for a while
	}},
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func (s *strike) restart() {
	s.server.Kill()
	time.Sleep(s.lasts / 2)
	s.server.Restart()
}

func (s *strike) setting(name, bad, good string) {
	s.w.ask(s.server, "CONFIG", "SET", name, bad)
	time.Sleep(s.lasts)
	s.w.ask(s.server, "CONFIG", "SET", name, good)
}

// overrun sends subscribers more than the server keeps for them.
func (s *strike) overrun() {
	s.w.ask(s.server, "CONFIG", "SET", "client-output-buffer-limit", "pubsub 20000 20000 1")
	list, publish := "CHANNELS", "PUBLISH"
	if s.w.cluster != nil {
		list, publish = "SHARDCHANNELS", "SPUBLISH"
	}
	channels := strings.Fields(s.w.ask(s.server, "PUBSUB", list))
	slices.Sort(channels)
	for _, channel := range channels[:min(len(channels), 8)] {
		s.w.ask(s.server, publish, channel, strings.Repeat("x", 200_000))
	}
	s.w.ask(s.server, "CONFIG", "SET", "client-output-buffer-limit", "pubsub 33554432 8388608 60")
}

// busy runs a script that takes so long that the server refuses others.
func (s *strike) busy() {
	s.w.ask(s.server, "CONFIG", "SET", "lua-time-limit", "10")
	const spin = `local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
local till = now() + ARGV[1]
while now() < till do end`
	if _, err := s.server.Ask(askLimit, "EVAL", spin, "0", ms(min(s.lasts, time.Second))); err != nil {
		s.w.t.Errorf("a fault was not inflicted: %v", err)
	}
	s.w.ask(s.server, "CONFIG", "SET", "lua-time-limit", "5000")
}

// failOver makes a replica the primary.
func (s *strike) failOver() {
	if s.w.sentinel != nil {
		s.w.sentinel.Failover(s.w.t)
	} else {
		_, replicas := s.w.cluster.Roles(s.w.t)
		s.w.ask(replicas[s.rng.IntN(len(replicas))], "CLUSTER", "FAILOVER", []string{"FORCE", "TAKEOVER"}[s.rng.IntN(2)])
		time.Sleep(s.lasts)
	}
}

// awaitFailover waits until there is another primary than the server.
func (s *strike) awaitFailover() {
	if s.w.sentinel != nil {
		s.w.sentinel.WaitNewPrimary(s.w.t, s.server)
		return
	}
	s.w.cluster.WaitReplaced(s.w.t, s.server)
}

// meant is the server that the next fault of servers hits.
func (w *world) meant(rng *rand.Rand) *redistest.Server {
	switch {
	case w.sentinel != nil:
		return w.sentinel.Primary(w.t)
	case w.cluster != nil:
		primaries, _ := w.cluster.Roles(w.t)
		return primaries[rng.IntN(len(primaries))]
	}
	return w.servers[0]
}
