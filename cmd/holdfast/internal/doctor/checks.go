package doctor

import "context"

// Check is one thing to look at.
type Check struct {
	// ID is its name, in kebab-case.
	ID string
	// Worst is the worst that it can find, but for Unknown.
	Worst Severity
	// Asks is what it looks at, for the documents.
	Asks string

	first   bool // also if no server answers
	watches bool // it is about sentinels
	// node looks at each node that answers, all at the whole. There is one of them. Nothing
	// found means that there is nothing to look at.
	node func(n *node) []Finding
	all  func(ctx context.Context, e *exam) []Finding
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
	{ID: "cluster-state", Worst: Failure, all: clusterState, Asks: "cluster: every node takes it for well, and all slots are covered"},
	{ID: "cluster-replicas", Worst: Warning, all: clusterReplicas, Asks: "cluster: each primary has a replica"},
	{ID: "cluster-versions", Worst: Warning, all: clusterVersions, Asks: "cluster, replicas: all nodes have one version"},
	{ID: "cluster-timeout", Worst: Warning, node: clusterTimeout, Asks: "cluster: a failover begins before a lease of 30 s has ended"},
	{ID: "cluster-messages", Worst: Warning, all: clusterMessages, Asks: "cluster: messages are sharded, so that no release goes to every node"},
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
	{ID: "clock", Worst: Failure, all: clock, Asks: "how far the servers' clocks are from this machine's, and from each other"},
	{ID: "latency", Worst: Failure, all: latency, Asks: "how long some hundred `PING` take"},
	{ID: "rights", Worst: Failure, all: rights, Asks: "what the user may do, for each kind of lock ([acl.md](acl.md))"},
	{ID: "locks", Worst: Failure, all: locks, Asks: "each kind that the user has the rights for is locked and unlocked"},
	{ID: "lock-latency", Worst: Warning, all: lockLatency, Asks: "how long a pair of lock and unlock takes"},
}
