package protocol

import "slices"

const (
	nodes = 3
	// clients are numbered in the order of their grants. One that comes back is another one here.
	clients = 3

	failoverLease = 2 // in ticks, as all times
	horizon       = 5 // when a run ends
	mostFailovers = 2
	downtime      = 1 // for how long nobody grants the lock after a primary is gone
	// perTick is how many units of the nodes' clocks are in a tick: more than grants, as there
	// are more microseconds than grants.
	perTick = 4
	// epoch is what a clock says at the start: one that is set back says something, too.
	epoch = 4 * perTick
)

// tokenRule is how a grant gets its fencing token.
type tokenRule int8

const (
	clockOrNext tokenRule = iota // max(last + 1, the server's time), as take_token in lua/common.lua
	counted                      // last + 1, as Redisson
	clockAlone                   // the server's time
)

// Failover is the lock of one name on a primary with two replicas, which get its writes
// later or never, and three clients that write to a store while they hold it. The zero
// value is what docs/fencing.md promises, under its assumptions; every field drops
// one rule, or one assumption.
type Failover struct {
	Tokens          tokenRule
	StoreTakesAll   bool // the store does not compare tokens
	OneHasNoToken   bool // client 1 writes without a token
	TrustFromReply  bool // a deadline counts from the reply, and not from the send
	IgnoresDeadline bool // a holder does not look at its hold's context before it writes
	// Skew is by how much the nodes' clocks may differ, in units. The assumption is that it is less
	// than what lies between the last grant of a primary and the first one of the next.
	Skew int8
	// ClockSet is by how much the primary's clock may be set, once, in units; below 0: back.
	ClockSet int8
	// Deposed: a primary that was replaced serves those who still reach it.
	Deposed bool
	// Acknowledged: nobody holds the lock before all replicas have acknowledged that. A primary that is gone, or was replaced,
	// comes back as a replica.
	Acknowledged bool
	// WritesAtOnce: no write is under way for a while, so none comes late. Nobody can promise
	// that.
	WritesAtOnce bool
	// Failovers is how many there may be.
	Failovers int8
}

// cluster is a state of [Failover].
type cluster struct {
	now, downSince int8
	primary        int8 // nobody: a failover is under way
	failovers      int8
	clockSet       bool
	nodes          [nodes]node
	clients        [clients]client
	grants         int8 // how many there were
	highest        int8 // of all tokens that were granted
	fell           bool // one was not greater than all before
	stored         int8 // the token of the last write that the store took
	storedBy       int8 // the last client whose write it took, in the order of grants
	stale          bool // it has taken one of an earlier client after that
}

// nobody is no client, or no node.
const nobody = -1

// role is what a node is.
type role int8

const (
	replica role = iota
	primary
	gone
)

// node is a Redis server: what it has of the lock, and its clock.
type node struct {
	role   role
	holder int8 // a client
	ends   int8 // when the lock expires, on its clock
	token  int8 // the last one, in redisson_lock_token:{name}
	ahead  int8 // its clock, in units
}

func (n *node) clock(now int8) int8 { return epoch + perTick*now + n.ahead }

// phase is what a client does.
type phase int8

const (
	before  phase = iota // it does not have the lock yet
	unheard              // the primary has granted it, and replicas are to acknowledge that; until says when that is too late
	granted              // it has, and the reply is under way; only where that matters
	holds
	writes // a write is under way
	after
)

// client is one that holds the lock, or does not.
type client struct {
	phase phase
	at    int8 // the node that has granted it; kept only if that matters
	until int8 // the deadline of its hold; 0: it has passed
	token int8
}

func (c *client) trusts() bool { return c.until > 0 && c.phase != unheard }

// oneHolder: no two clients trust their holds at once.
var oneHolder = invariant[cluster]{"one holder", func(s cluster) bool {
	n := 0
	for i := range s.clients {
		if s.clients[i].trusts() {
			n++
		}
	}
	return n <= 1
}}

// tokensRise: every grant has a greater token than all before.
var tokensRise = invariant[cluster]{"tokens rise", func(s cluster) bool { return !s.fell }}

// noStaleWrite: the store takes no write of a grant after one of a later grant.
var noStaleWrite = invariant[cluster]{"no stale write", func(s cluster) bool { return !s.stale }}

// starts has every combination of clocks.
func (m Failover) starts() (all []cluster) {
	all = []cluster{{}}
	for i := range nodes {
		more := make([]cluster, 0, 2*len(all))
		for _, ahead := range slices.Compact([]int8{0, m.Skew}) {
			for _, s := range all {
				s.nodes[i] = node{holder: nobody, ahead: ahead}
				more = append(more, s)
			}
		}
		all = more
	}
	for i := range all {
		all[i].nodes[0].role = primary
		m.simplify(&all[i])
	}
	return all
}

// simplify makes one state of all that differ in what does not matter any more: which replica is which,
// what is on replicas that nobody will promote, and on any node once all grants are made.
func (m Failover) simplify(s *cluster) {
	if s.grants == clients && !slices.ContainsFunc(s.clients[:], func(c client) bool { return c.phase == unheard }) {
		s.nodes, s.primary, s.downSince, s.failovers, s.clockSet = [nodes]node{}, 0, 0, 0, false
		return
	}
	if s.failovers == m.Failovers && s.primary != nobody && !m.Acknowledged {
		for i := range s.nodes {
			if s.nodes[i].role == replica {
				s.nodes[i] = node{holder: nobody}
			}
		}
	}
	if a, b := &s.nodes[1], &s.nodes[2]; a.role == replica && b.role == replica && a.less(b) {
		*a, *b = *b, *a
	}
}

// less is an order of nodes, any one.
func (n *node) less(than *node) bool {
	return slices.Compare([]int8{n.holder, n.ends, n.token, n.ahead}, []int8{than.holder, than.ends, than.token, than.ahead}) < 0
}

var clientNames = [clients]string{"client 1", "client 2", "client 3"}

func (m Failover) steps(s cluster, simplified func(who, what string, next cluster)) {
	take := func(who, what string, next cluster) {
		m.simplify(&next)
		simplified(who, what, next)
	}
	for i := range s.clients {
		m.clientSteps(s, int8(i), func(what string, next cluster) { take(clientNames[i], what, next) })
	}
	if s.grants < clients {
		for at, n := range s.nodes {
			if n.role == primary && n.holder == nobody {
				what := "is granted the lock"
				if s.primary != int8(at) {
					what = "is granted the lock by the old primary"
				}
				take(clientNames[s.grants], what, m.grant(s, int8(at)))
			}
		}
	}
	for i := range s.nodes {
		m.nodeSteps(s, int8(i), take)
		if m.Acknowledged && s.nodes[i].role != replica && s.primary != int8(i) && s.primary != nobody {
			take("what was the primary", "comes back as a replica", s.joined(int8(i)))
		}
	}
	if s.now < horizon {
		s.now++
		s.expire()
		m.endTrust(&s)
		take("the clock", "ticks", s)
	}
}

// expire drops the lock where its time is over.
func (s *cluster) expire() {
	for i := range s.nodes {
		if n := &s.nodes[i]; n.holder != nobody && n.clock(s.now) >= n.ends {
			n.holder, n.ends = nobody, 0
		}
	}
}

// endTrust ends the contexts of holds whose deadlines have passed. What they have not begun to
// write they do not write any more.
func (m Failover) endTrust(s *cluster) {
	for i := range s.clients {
		c := &s.clients[i]
		if c.until > s.now {
			continue
		}
		if c.until = 0; c.phase == unheard || c.phase == holds && !m.IgnoresDeadline {
			*c = client{phase: after}
		}
	}
}

func (m Failover) clientSteps(s cluster, i int8, take func(what string, next cluster)) {
	switch c := s.clients[i]; c.phase {
	case unheard:
		if s.acknowledged(c) {
			c.phase = holds
			s.note(c.token)
			take("hears that all replicas have that", s.with(i, c))
		}
	case granted:
		c.phase, c.until = holds, s.now+failoverLease
		take("hears that it holds the lock", s.with(i, c))
	case holds:
		if m.WritesAtOnce {
			take("writes", m.store(s, i))
		} else {
			c.phase = writes
			take("looks at its hold, and begins to write", s.with(i, c))
		}
		take("gives the lock back", m.leave(s, i))
	case writes:
		next := m.store(s, i)
		next.clients[i].phase = holds
		m.endTrust(&next)
		take("has its write arrive", next)
	case before, after:
	}
}

func (s *cluster) with(i int8, c client) cluster {
	next := *s
	next.clients[i] = c
	return next
}

// grant is acquire.lua with a token, on a lock that is free. It is sent and answered in
// the same instant, which leaves the client the longest trust.
func (m Failover) grant(s cluster, at int8) cluster {
	n := &s.nodes[at]
	clock := n.clock(s.now)
	n.holder, n.ends = s.grants, clock+perTick*failoverLease
	n.token = m.Tokens.take(n.token, clock)
	c := client{phase: holds, until: s.now + failoverLease, token: n.token}
	if m.TrustFromReply {
		c.phase, c.until = granted, 0
	}
	if m.Deposed || m.Acknowledged {
		c.at = at
	}
	if m.Acknowledged {
		c.phase = unheard
	} else {
		s.note(c.token)
	}
	s.clients[s.grants] = c
	s.grants++
	return s
}

// note notes that a client has a token.
func (s *cluster) note(token int8) {
	s.fell = s.fell || token <= s.highest
	s.highest = max(s.highest, token)
}

// acknowledged reports whether all other nodes are replicas that have what a client was granted, so that WAIT says so.
func (s *cluster) acknowledged(c client) bool {
	for i, n := range s.nodes {
		if here := int8(i) == c.at; here && n.role != primary || !here && (n.role != replica || n.token < c.token) {
			return false
		}
	}
	return true
}

// take is take_token of lua/common.lua, or not.
func (r tokenRule) take(last, us int8) int8 {
	switch r {
	case counted:
		return last + 1
	case clockAlone:
		return us
	default:
		return max(last+1, us)
	}
}

// leave is release.lua; a primary that is gone does not hear of it.
func (m Failover) leave(s cluster, i int8) cluster {
	for at := range s.nodes {
		n := &s.nodes[at]
		if n.role == primary && n.holder == i && (!m.Deposed || s.clients[i].at == int8(at)) {
			n.holder, n.ends = nobody, 0
		}
	}
	s.clients[i] = client{phase: after}
	return s
}

// store is Save of docs/fencing.md.
func (m Failover) store(s cluster, i int8) cluster {
	token := s.clients[i].token
	compared := !m.StoreTakesAll && (!m.OneHasNoToken || i > 0)
	if compared && token < s.stored {
		return s
	}
	s.stale = s.stale || i < s.storedBy
	s.stored, s.storedBy = max(s.stored, token), max(s.storedBy, i)
	return s
}

func (m Failover) nodeSteps(s cluster, i int8, take func(who, what string, next cluster)) {
	n := s.nodes[i]
	lastOne := s.failovers == m.Failovers && s.primary != nobody && !m.Acknowledged // it stays the primary
	switch {
	case n.role == primary && i == s.primary:
		if s.failovers < m.Failovers {
			fallen := s
			fallen.primary, fallen.downSince = nobody, s.now
			fallen.failovers++
			if m.Deposed {
				take("the primary", "is cut off from the others", fallen)
			} else {
				fallen.nodes[i] = node{role: gone, holder: nobody}
				take("the primary", "is gone, with what the others do not have yet", fallen)
			}
		}
		if m.ClockSet != 0 && !s.clockSet {
			s.clockSet = true
			s.nodes[i].ahead += m.ClockSet
			s.expire()
			take("the primary", "has its clock set", s)
		}
	case n.role != replica, lastOne:
	case s.primary == nobody:
		if s.now-s.downSince >= downtime {
			s.primary, s.downSince = i, 0
			s.nodes[i].role = primary
			take("a replica", "is promoted", s)
		}
	default:
		from := s.nodes[s.primary]
		n.holder, n.ends, n.token = from.holder, from.ends, from.token
		if n != s.nodes[i] {
			s.nodes[i] = n
			s.expire()
			take("a replica", "gets what the primary has written", s)
		}
	}
}

// joined is what becomes of a node that follows the primary from now on. Who waits there for replicas is told that it waits in
// vain, and holders speak to the primary.
func (s *cluster) joined(i int8) cluster {
	next := *s
	from := s.nodes[s.primary]
	next.nodes[i] = node{role: replica, holder: from.holder, ends: from.ends, token: from.token, ahead: s.nodes[i].ahead}
	for k := range next.clients {
		switch c := &next.clients[k]; {
		case c.at != i || c.phase == before || c.phase == after:
		case c.phase == unheard:
			*c = client{phase: after}
		default:
			c.at = s.primary
		}
	}
	next.expire()
	return next
}
