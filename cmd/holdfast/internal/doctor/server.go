package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// The bounds at which a check warns, or fails.
const (
	certificateSoon = 14 * 24 * time.Hour
	fullMemory      = 90 // percent
	manyClients     = 80 // percent
	replicaLag      = 5  // seconds
	smallBuffer     = 1 << 20
	shortIdle       = 60 // seconds
	slowCommand     = 100 * time.Millisecond
	slowMean        = 10 * time.Millisecond
	slowSince       = 24 * time.Hour
)

// release is a version of a server that is tested, as in README.md.
type release struct {
	product      string
	major, minor int
	tested       string
}

var releases = []release{
	{redisName, 6, 0, "6.0.16"},
	{redisName, 7, 0, "7.0.15"},
	{redisName, 8, 0, "8.0.2"},
	{valkeyName, 8, 0, "8.0.1"},
	{valkeyName, 8, 1, "8.1.1"},
}

const (
	redisName  = "Redis"
	valkeyName = "Valkey"
)

// oldest is the oldest version that has all commands.
var oldest = [3]int{6, 0, 6}

func reachable(_ context.Context, e *exam) (found findings) {
	if len(e.nodes) == 0 {
		return fail("Check that the sentinels run, and the URL.", "no sentinel names a server")
	}
	const do = "See that it runs, and that the URL, the password and the network are right."
	for _, n := range e.nodes {
		f := pass("%s, %s", n.addr, n.transport())
		if n.err != nil {
			f = fail(do, "%s cannot be used: %v", n.addr, connect.Explain(n.err))
		}
		found = append(found, f.at(n.addr)...)
	}
	if e.enumerated != nil && len(e.reached()) > 0 {
		why := connect.Explain(e.enumerated)
		found = append(found, fail("Check the URL and the state of the nodes.", "not all nodes are known: %v", why)...)
	}
	return found
}

// transport says how a node is reached.
func (n *node) transport() string {
	if state := n.tls.Load(); state != nil {
		return tls.VersionName(state.Version)
	}
	if n.target.IsSocket() {
		return "a socket"
	}
	return "without TLS"
}

func certificate(_ context.Context, e *exam) (found findings) {
	uses, verified := e.Target.Verifies()
	if !uses {
		return nil
	}
	if !verified {
		return warn("Give --tls-ca in place of skip_verify.",
			"the certificates are not checked, so anybody on the way can be the server")
	}
	for _, n := range e.reached() {
		state := n.tls.Load()
		if state == nil || len(state.PeerCertificates) == 0 {
			continue
		}
		ends := state.PeerCertificates[0].NotAfter.UTC()
		f := pass("valid until %s", ends.Format(time.DateOnly))
		if ends.Sub(e.Now()) < certificateSoon {
			f = warn("Renew it: clients that connect after that are refused.",
				"the certificate ends on %s", ends.Format(time.RFC3339))
		}
		found = append(found, f.at(n.addr)...)
	}
	return found
}

func password(ctx context.Context, e *exam) findings {
	nodes := e.reached()
	user, err := nodes[0].client.Do(ctx, "ACL", "WHOAMI").Text()
	as := ""
	if err == nil {
		as = fmt.Sprintf(", as user %q", user)
	}
	if e.Target.HasPassword() {
		return pass("accepted%s", as)
	}
	for _, n := range nodes {
		if !n.local() {
			return warn("Set requirepass, or users with ACL SETUSER, and keep the port from strangers.",
				"%s asks for no password, so whoever reaches it can take any lock from its holder", n.addr)
		}
	}
	return pass("none asked for, on this machine%s", as)
}

// product is what the server is, and its version; empty if it does not say.
func (n *node) product() (name, number string) {
	for _, p := range []struct{ field, name string }{
		{"valkey_version", valkeyName}, {"dragonfly_version", "Dragonfly"},
	} {
		if number, ok := n.info[p.field]; ok {
			return p.name, number
		}
	}
	return redisName, n.says("redis_version")
}

func version(n *node) findings {
	name, number := n.product()
	var v [3]int
	_, err := fmt.Sscanf(number, "%d.%d.%d", &v[0], &v[1], &v[2])
	if err == nil && name == redisName && slices.Compare(v[:], oldest[:]) < 0 {
		return fail("Take Redis 6.0.6 or newer.", "Redis %s lacks commands that locks need", number)
	}
	tested, newest := "", [2]int{}
	for _, r := range releases {
		if r.product != name {
			continue
		}
		if v[0] == r.major && v[1] == r.minor {
			return pass("%s %s; %s was tested", name, number, r.tested)
		}
		tested, newest = tested+" "+r.tested, [2]int{r.major, r.minor}
	}
	switch {
	case tested == "":
		return warn("Try your locks on it first; docs/servers.md has what is known of it.",
			"%s %s is not tested at all", name, number)
	case slices.Compare(v[:2], newest[:]) > 0:
		return warn("Nothing is known against it; see whether there is a newer holdfast.",
			"%s %s is newer than those that were tested:%s", name, number, tested)
	}
	return pass("%s %s; not tested itself, but%s were", name, number, tested)
}

func role(n *node) findings {
	switch primary := n.says("role") == "master"; {
	case primary && n.replica:
		return warn("Look again in a moment: a failover may be under way.", "it was named as a replica, and is a primary")
	case primary:
		return pass("it is a primary")
	case !n.replica:
		return fail("Name the primary, or use redis+sentinel://.", "it is a replica of %s:%s, so it takes no writes",
			n.info["master_host"], n.info["master_port"])
	case n.info["master_link_status"] != "up":
		return warn("Check the network between them, and the log of the replica.",
			"this replica has no connection to its primary")
	}
	return pass("it is a replica")
}

func clusterMode(n *node) findings {
	switch is := n.info["cluster_enabled"]; { // if there is none, other checks say that INFO is refused
	case is == "1" && !n.target.IsCluster():
		return fail("Put ?cluster=true behind the URL.", "it is one node of a cluster, and the URL is not of a cluster")
	case is == "0" && n.target.IsCluster():
		return fail("Name one host, without cluster=true.", "it is no cluster, and the URL is of one")
	}
	return nil
}

func eviction(n *node) findings {
	const do = "Set maxmemory-policy noeviction, in the configuration file, too; caches belong on another server."
	switch policy := n.says("maxmemory_policy"); {
	case policy == "noeviction":
		return pass("noeviction, so no lock is evicted")
	case n.info["maxmemory"] == "0":
		return warn(do, "%s evicts locks as soon as somebody sets maxmemory; now there is no limit", policy)
	default:
		return fail(do, "%s evicts locks when memory is short (%s keys were evicted so far): two may then hold one lock",
			policy, n.info["evicted_keys"])
	}
}

func memory(n *node) findings {
	const do = "Raise maxmemory, or delete keys."
	used, limit := n.saysNumber("used_memory"), n.saysNumber("maxmemory")
	switch {
	case limit == 0:
		return pass("%s used, no maxmemory", size(used))
	case used >= limit:
		return fail(do, "%s used of %s: writes are refused, so no lock can be taken", size(used), size(limit))
	case share(used, limit) >= fullMemory:
		return warn(do, "%s used of %s: when it is full no lock can be taken", size(used), size(limit))
	}
	return pass("%s used of %s", size(used), size(limit))
}

// share is how much of a limit is used, in percent.
func share(used, limit int64) float64 { return 100 * float64(used) / float64(limit) }

// size writes a number of bytes for readers.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
}

func persistence(n *node) findings {
	const (
		do      = "Set appendonly yes, with appendfsync always if a power failure must lose none, either; or use fencing tokens."
		failing = "Its log says why; give it room on its disk."
	)
	save, known := n.config["save"]
	switch aof := n.saysNumber("aof_enabled"); {
	case n.info["loading"] == "1":
		return fail("Wait until it has loaded its data.", "it has just started and still loads its data")
	case aof == 1 && n.info["aof_last_write_status"] == "err":
		return fail(failing, "the append-only file could not be written, so writes are refused")
	case aof == 1:
		return appendOnly(n)
	case !known:
		return unknown("there is no append-only file; whether there are snapshots is not known, since " + n.noSetting("save"))
	case save == "":
		return warn(do, "nothing is kept on disk: a restart forgets every lock that is held")
	case n.info["rdb_last_bgsave_status"] == "err" && n.config["stop-writes-on-bgsave-error"] == "yes":
		return fail(failing, "the last snapshot failed, so writes are refused and no lock can be taken")
	}
	return warn(do, "there are snapshots only (save %s): a restart forgets the locks that were taken since the last one", save)
}

// appendOnly looks at how soon the append-only file is on disk.
func appendOnly(n *node) findings {
	switch fsync := n.config["appendfsync"]; fsync {
	case "":
		return unknown("there is an append-only file; how soon it is on disk is not known, since " + n.noSetting("appendfsync"))
	case "always":
		return pass("appendonly, fsync always: a restart loses no lock")
	case "everysec":
		return pass("appendonly, fsync everysec: a restart loses no lock, a power failure about a second of them")
	default:
		return warn("Set appendfsync everysec, or always.",
			"appendonly with appendfsync %s: a power failure loses what the system had not written, half a minute perhaps", fsync)
	}
}

// takesReplicas reports whether a node is one that may have replicas.
func (n *node) takesReplicas() bool { return !n.replica && n.info["role"] != "slave" }

var replicaLine = regexp.MustCompile(`^slave\d+$`)

func replicas(n *node) (found findings) {
	if !n.takesReplicas() {
		return nil
	}
	const do = "Check the network between them and the log of the replica: what it lacks, a failover forgets."
	for name, line := range n.info {
		if !replicaLine.MatchString(name) {
			continue
		}
		state := pairs(line)
		who := state["ip"] + ":" + state["port"]
		if lag, err := strconv.Atoi(state["lag"]); state["state"] != "online" {
			found = append(found, warn(do, "the replica %s is not online: %s", who, state["state"])...)
		} else if err != nil || lag >= replicaLag {
			found = append(found, warn(do, "the replica %s was last heard of %s s ago", who, state["lag"])...)
		}
	}
	switch count := n.saysNumber("connected_slaves"); {
	case len(found) > 0:
		return found
	case count == 0:
		return pass("none; a failover needs one")
	default:
		return pass("%d online; a failover may forget what was not replicated (WithReplicaAck)", count)
	}
}

func minReplicas(n *node) findings {
	if !n.takesReplicas() {
		return nil
	}
	wanted := n.settingNumber("min-replicas-to-write")
	// INFO has the first only if it is used.
	online := int64(number(cmp.Or(n.info["min_slaves_good_slaves"], n.info["connected_slaves"])))
	switch {
	case wanted > online:
		return fail("Bring replicas back, or lower min-replicas-to-write.",
			"writes need %d replicas, and %d are there, so no lock can be taken", wanted, online)
	case wanted > 0 && wanted == online:
		return warn("Have one replica more than writes need.",
			"writes need %d replicas, and no more are there: if one is away no lock can be taken", wanted)
	case wanted == 0 && n.target.Master() != "":
		return warn("Set min-replicas-to-write 1 and min-replicas-max-lag to a few seconds on every node.",
			"writes need no replica: a primary that is cut off goes on granting locks that the new one grants, too")
	case wanted == 0:
		return pass("writes need none")
	}
	return pass("writes need %d, %d are there", wanted, online)
}

func outputBuffers(n *node) findings {
	words := strings.Fields(n.setting("client-output-buffer-limit"))
	at := slices.Index(words, "pubsub")
	if at < 0 || at+3 >= len(words) {
		return unknown("client-output-buffer-limit has nothing of pubsub")
	}
	for _, word := range words[at+1 : at+3] { // hard and soft
		limit := n.number(word, "client-output-buffer-limit is not understood")
		if limit > 0 && limit < smallBuffer {
			return warn("Set client-output-buffer-limit \"pubsub 32mb 8mb 60\", the default.",
				"pub/sub clients are cut off when %s wait for them: those who wait for locks then miss releases", size(limit))
		}
	}
	return pass("pubsub %s", strings.Join(words[at+1:at+4], " "))
}

func idleTimeout(n *node) findings {
	switch seconds := n.settingNumber("timeout"); {
	case seconds == 0:
		return pass("idle connections stay")
	case seconds < shortIdle:
		return warn("Set timeout 0, or 60 and more.",
			"connections that idle for %d s are closed: many locks then wait for a new one", seconds)
	default:
		return pass("connections that idle for %d s are closed, and made again", seconds)
	}
}

func keepalive(n *node) findings {
	seconds := n.settingNumber("tcp-keepalive")
	if seconds == 0 {
		return warn("Set tcp-keepalive 300, the default.",
			"connections of dead clients are never found, and count toward maxclients")
	}
	return pass("dead clients are found after some %d s", seconds)
}

func clients(n *node) findings {
	const do = "Raise maxclients and the system's limit of open files, or use fewer connections a process."
	are, limit := n.saysNumber("connected_clients"), int64(number(n.info["maxclients"]))
	if limit == 0 {
		limit = n.settingNumber("maxclients")
	}
	switch refused := number(n.info["rejected_connections"]); {
	case limit <= 0:
		return pass("%d, no maxclients", are)
	case are >= limit:
		return fail(do, "%d connections of %d: new ones are refused", are, limit)
	case share(are, limit) >= manyClients:
		return warn(do, "%d connections of %d: when they are used up, new ones are refused", are, limit)
	case refused > 0:
		return warn(do, "%d connections were refused since it started; now there are %d of %d", refused, are, limit)
	}
	return pass("%d of %d", are, limit)
}

// plainName is what a command's name looks like. The slow log also has what is none.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z.|_-]{0,31}$`)

func blocking(n *node) findings {
	const do = "All locks wait while one command runs: " +
		"use SCAN in place of KEYS, UNLINK in place of DEL, smaller scripts, or another server."
	var found findings
	if said := n.slowest(); said != "" {
		found = append(found, warn(do, "%s", said)...)
	}
	if means := n.slowOnTheWhole(); len(means) > 0 {
		found = append(found, warn(do, "on the whole these commands are slow: %s", strings.Join(means, ", "))...)
	}
	if len(found) > 0 {
		return found
	}
	if why := cmp.Or(n.noSlow, n.noInfo); why != "" {
		return unknown(why)
	}
	micros, err := strconv.ParseInt(n.config["slowlog-log-slower-than"], 10, 64)
	if err == nil && (micros < 0 || micros > slowCommand.Microseconds()) {
		return unknown("the slow log does not note commands of " + slowCommand.String())
	}
	return pass("no command took %v in the last day, as far as the slow log goes", slowCommand)
}

// slowest is what the slow log says; empty: nothing. Arguments of commands may be secret, so only names are shown.
func (n *node) slowest() string {
	count, longest, name := 0, time.Duration(0), ""
	for _, entry := range n.slow {
		ago := n.now.Add(n.offset).Sub(entry.Time)
		if entry.Duration < slowCommand || ago > slowSince || len(entry.Args) == 0 {
			continue
		}
		count++
		if entry.Duration > longest {
			longest, name = entry.Duration, "a command"
			if plainName.MatchString(entry.Args[0]) {
				name = strings.ToUpper(entry.Args[0])
			}
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d commands took %v or more in the last day; the longest, %s, %v",
		count, slowCommand, name, longest.Round(time.Millisecond))
}

// administrative commands may be slow, and are not sent by programs; EXEC is counted with what it executes.
var administrative = regexp.MustCompile(`^(psync|sync|save|bgsave|bgrewriteaof|shutdown|debug|memory|cluster|replicaof|slaveof|config|module|acl|latency)\b`)

// slowOnTheWhole are the commands whose mean is slow.
func (n *node) slowOnTheWhole() (names []string) {
	for field, stats := range n.info {
		name, ok := strings.CutPrefix(field, "cmdstat_")
		if !ok || administrative.MatchString(name) {
			continue
		}
		values := pairs(stats)
		if mean, err := strconv.ParseFloat(values["usec_per_call"], 64); err == nil && mean >= float64(slowMean.Microseconds()) {
			names = append(names, fmt.Sprintf("%s (%s calls of %.0f ms)", strings.ToUpper(name), values["calls"], mean/1000))
		}
	}
	slices.Sort(names)
	return names
}

func scriptLimit(n *node) findings {
	const do = "Set busy-reply-threshold 5000 (before 7.0: lua-time-limit), the default."
	// The other name of busy-reply-threshold, which came with 7.0.
	switch limit := protocol.Milliseconds(n.settingNumber("lua-time-limit")); {
	case limit <= 0:
		return warn(do, "a script that hangs cannot be killed: until then no lock is renewed")
	case limit > lease/2:
		return warn(do, "a script that hangs can be killed after %v only: leases of %v end before all is well", limit, lease)
	default:
		return pass("a script that hangs can be killed after %v", limit)
	}
}

// scriptIsolation runs a script that uses a function by which scripts of others could be changed. A server that isolates scripts does not have it.
func scriptIsolation(ctx context.Context, _ *exam, n *node) findings {
	return isolation(n.client.Do(ctx, "EVAL", "return setfenv and 1", 0).Err())
}

// isolation interprets the outcome of that script.
func isolation(err error) findings {
	switch {
	case err == nil:
		return warn("Upgrade the server; until then give EVAL to no user of another tenant.",
			"any user with EVAL can make the scripts of all others execute its code")
	case strings.Contains(err.Error(), "nonexistent global variable"):
		return pass("a script cannot change those of others")
	}
	return unknown(refusal("EVAL", err))
}
