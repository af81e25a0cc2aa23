package doctor

import (
	"context"
	"fmt"
	"slices"
)

// Severity is how bad a finding is.
type Severity string

// The severities, from the best to the worst.
const (
	Pass    Severity = "ok"
	Unknown Severity = "unknown" // the server does not say, which is no failure
	Warning Severity = "warning"
	Failure Severity = "failure"
)

var order = map[Severity]int{Pass: 0, Unknown: 1, Warning: 2, Failure: 3}

// worse reports whether s is worse than other.
func (s Severity) worse(other Severity) bool { return order[s] > order[other] }

// Finding is what a check has found.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Where are the nodes that it is about; none if it is about all of them.
	Where []string `json:"where,omitempty"`
	// Found and Do are a sentence each: what there is, and what to do about it.
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
}

// findings are what a check has found, most often one. None means that there is nothing to look at.
type findings []Finding

// at says which node they are about.
func (all findings) at(addr string) findings {
	for i := range all {
		all[i].Where = []string{addr}
	}
	return all
}

func pass(format string, args ...any) findings {
	return findings{{Severity: Pass, Found: fmt.Sprintf(format, args...)}}
}

func unknown(why string) findings {
	return findings{{Severity: Unknown, Found: why, Do: "Run it once as a user who may, or look for yourself."}}
}

// late is what is not known because the time was over.
func late() findings {
	const do = "Give it more with --timeout, or look why the server is slow."
	return findings{{Severity: Unknown, Found: "there was no time for it", Do: do}}
}

func warn(do, format string, args ...any) findings {
	return findings{{Severity: Warning, Do: do, Found: fmt.Sprintf(format, args...)}}
}

func fail(do, format string, args ...any) findings {
	return findings{{Severity: Failure, Do: do, Found: fmt.Sprintf(format, args...)}}
}

// merge makes one finding of those that say the same of several nodes. all is how many nodes
// there are.
func merge(found []Finding, all int) (merged []Finding) {
	for _, f := range found {
		at := slices.IndexFunc(merged, func(m Finding) bool {
			return m.Severity == f.Severity && m.Found == f.Found && m.Do == f.Do
		})
		if at < 0 {
			merged = append(merged, f)
			continue
		}
		merged[at].Where = append(merged[at].Where, f.Where...)
	}
	for i := range merged {
		if len(merged[i].Where) == all {
			merged[i].Where = nil
		}
	}
	return merged
}

// Check is one thing to look at. It has one of three functions: node reads what was gathered of each node that
// answers, primary tries something on each that takes writes, and all looks at the whole.
type Check struct {
	// ID is its name, in kebab-case.
	ID string
	// Worst is the worst that it can find, but for Unknown.
	Worst Severity
	// Asks is what it looks at, for the documents.
	Asks string

	first     bool // also if no server answers
	watches   bool // it is about sentinels
	clustered bool // it is about clusters alone

	node    func(n *node) findings
	primary func(ctx context.Context, e *exam, n *node) findings
	all     func(ctx context.Context, e *exam) findings
}

// run does the check.
func (c Check) run(ctx context.Context, e *exam) []Finding {
	var found findings
	switch {
	case c.clustered && !e.Target.IsCluster():
	case c.node != nil:
		for _, n := range e.reached() {
			found = append(found, c.on(n).at(n.addr)...)
		}
	case ctx.Err() != nil && !c.first:
		found = late()
	case c.primary != nil:
		for _, n := range e.primaries() {
			found = append(found, c.primary(ctx, e, n).at(n.addr)...)
		}
	default:
		found = c.all(ctx, e)
	}
	for i := range found {
		found[i].Check = c.ID
	}
	if c.watches {
		return merge(found, len(e.watchers))
	}
	return merge(found, len(e.nodes))
}

// on reads what was gathered of a node. What the node has not said is not known.
func (c Check) on(n *node) findings {
	n.lacks = ""
	found := c.node(n)
	if n.lacks != "" {
		return unknown(n.lacks)
	}
	return found
}

// Checks are all of them, in their order. docs/cli.md has the same table.
var Checks = []Check{
	{ID: "sentinels", Worst: Failure, first: true, watches: true, all: sentinels, Asks: "sentinels: each answers, how many, their quorum, whether they name one primary, how soon they act"},
	{ID: "reachable", Worst: Failure, first: true, all: reachable, Asks: "each server answers, at which address, with or without TLS, with this user and password"},
	{ID: "certificate", Worst: Warning, all: certificate, Asks: "with TLS: certificates are checked, and do not end within two weeks"},
	{ID: "password", Worst: Warning, all: password, Asks: "the server asks for a password, unless it is on this machine"},
	{ID: "version", Worst: Failure, node: version, Asks: "the version, and whether it is among those that are tested"},
	{ID: "role", Worst: Failure, node: role, Asks: "the server named is no replica, and a replica has its primary"},
	{ID: "cluster-mode", Worst: Failure, node: clusterMode, Asks: "the URL is of a cluster if the server is one"},
	{ID: "cluster-state", Worst: Failure, clustered: true, node: clusterState, Asks: "cluster: every node takes it for well, and all slots are covered"},
	{ID: "cluster-replicas", Worst: Warning, clustered: true, node: clusterReplicas, Asks: "cluster: each primary has a replica"},
	{ID: "cluster-versions", Worst: Warning, all: clusterVersions, Asks: "cluster, replicas: all nodes have one version"},
	{ID: "cluster-timeout", Worst: Warning, clustered: true, node: clusterTimeout, Asks: "cluster: a failover begins before a lease of 30 s has ended"},
	{ID: "cluster-messages", Worst: Warning, clustered: true, primary: clusterMessages, Asks: "cluster: messages are sharded, so that no release goes to every node"},
	{ID: "eviction", Worst: Failure, node: eviction, Asks: "`maxmemory-policy` is `noeviction`, so no lock is evicted"},
	{ID: "memory", Worst: Failure, node: memory, Asks: "memory that is used, of `maxmemory`"},
	{ID: "persistence", Worst: Failure, node: persistence, Asks: "what a restart loses: `appendonly`, `appendfsync`, `save`, and whether the last write to disk went well"},
	{ID: "replicas", Worst: Warning, node: replicas, Asks: "each replica is online, and not far behind"},
	{ID: "min-replicas", Worst: Failure, node: minReplicas, Asks: "`min-replicas-to-write`: whether writes need replicas, and those are there"},
	{ID: "output-buffers", Worst: Warning, node: outputBuffers, Asks: "`client-output-buffer-limit` for pub/sub is large enough"},
	{ID: "idle-timeout", Worst: Warning, node: idleTimeout, Asks: "`timeout` does not close connections that idle for a moment"},
	{ID: "tcp-keepalive", Worst: Warning, node: keepalive, Asks: "`tcp-keepalive` finds dead clients"},
	{ID: "clients", Worst: Failure, node: clients, Asks: "connections that there are, of `maxclients`, and whether some were refused"},
	{ID: "blocking", Worst: Warning, node: blocking, Asks: "commands and scripts that kept all others waiting: the slow log, and `INFO commandstats`"},
	{ID: "script-limit", Worst: Warning, node: scriptLimit, Asks: "`busy-reply-threshold` (`lua-time-limit`): a script that hangs can be killed before leases end"},
	{ID: "script-isolation", Worst: Warning, primary: scriptIsolation, Asks: "a script of one user cannot replace what the scripts of others call ([security.md](security.md#neighbours))"},
	{ID: "clock", Worst: Failure, all: clock, Asks: "how far the servers' clocks are from this machine's, and from each other"},
	{ID: "latency", Worst: Failure, primary: latency, Asks: "how long some hundred `PING` take"},
	{ID: "scripts", Worst: Failure, all: scripts, Asks: "users without `EVAL`: the [scripts](acl.md#users-without-eval) are loaded, into replicas, too; and whether users of certain keys can run Lua of their own"},
	{ID: "rights", Worst: Failure, primary: tryRights, Asks: "what the user may do, for each kind of lock ([acl.md](acl.md))"},
	{ID: "locks", Worst: Failure, primary: locks, Asks: "each kind that the user has the rights for is locked and unlocked"},
	{ID: "lock-latency", Worst: Warning, primary: lockLatency, Asks: "how long a pair of lock and unlock takes"},
}
