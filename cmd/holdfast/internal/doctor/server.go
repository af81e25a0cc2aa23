package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
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

func reachable(_ context.Context, e *exam) (found []Finding) {
	if len(e.nodes) == 0 {
		return []Finding{fail("Check that the sentinels run, and the URL.", "no sentinel names a server")}
	}
	for _, n := range e.nodes {
		f := pass("%s, %s", n.addr, e.transport(n))
		if n.err != nil {
			f = fail("See that it runs, and that the URL, the password and the network are right.", "%s cannot be used: %v", n.addr, connect.Explain(n.err))
		}
		found = append(found, f.at(n))
	}
	if e.enumerated != nil && len(e.reached()) > 0 {
		found = append(found, fail("Check the URL and the state of the nodes.", "not all nodes are known%s", because(e.enumerated)))
	}
	return found
}

// because explains an error behind a sentence.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + connect.Explain(err).Error()
}

// transport says how a node is reached.
func (e *exam) transport(n *node) string {
	switch state, secure := e.network.state(n.addr); {
	case secure:
		return tls.VersionName(state.Version)
	case e.Target.IsSocket():
		return "a socket"
	default:
		return "without TLS"
	}
}

func certificate(_ context.Context, e *exam) (found []Finding) {
	uses, verified := e.Target.Verifies()
	if !uses {
		return nil
	}
	if !verified {
		return []Finding{warn("Give --tls-ca in place of skip_verify.", "the certificates are not checked, so anybody on the way can be the server")}
	}
	for _, n := range e.reached() {
		state, ok := e.network.state(n.addr)
		if !ok || len(state.PeerCertificates) == 0 {
			continue
		}
		ends := state.PeerCertificates[0].NotAfter
		f := pass("valid until %s", ends.UTC().Format(time.DateOnly))
		if ends.Sub(e.Now()) < certificateSoon {
			f = warn("Renew it: clients that connect after that are refused.", "the certificate ends on %s", ends.UTC().Format(time.RFC3339))
		}
		found = append(found, f.at(n))
	}
	return found
}

func password(ctx context.Context, e *exam) []Finding {
	nodes := e.reached()
	user, err := nodes[0].client.Do(ctx, "ACL", "WHOAMI").Text()
	as := ""
	if err == nil {
		as = fmt.Sprintf(", as user %q", user)
	}
	for _, n := range nodes {
		if !e.Target.HasPassword() && !n.local() {
			return []Finding{warn("Set requirepass, or users with ACL SETUSER, and keep the port from strangers.",
				"%s asks for no password, so whoever reaches it can take any lock from its holder", n.addr)}
		}
	}
	if !e.Target.HasPassword() {
		return []Finding{pass("none asked for, on this machine%s", as)}
	}
	return []Finding{pass("accepted%s", as)}
}

// product is what the server is, and its version.
func (n *node) product() (name, number, why string) {
	for _, p := range []struct{ field, name string }{
		{"valkey_version", valkeyName}, {"dragonfly_version", "Dragonfly"}, {"redis_version", redisName},
	} {
		if number, ok := n.info[p.field]; ok {
			return p.name, number, ""
		}
	}
	_, why = n.said("redis_version")
	return "", "", why
}

var versionNumber = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)`)

// numbers are the three numbers of a version.
func numbers(text string) (v [3]int, ok bool) {
	match := versionNumber.FindStringSubmatch(text)
	if match == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(match[i+1]) // they are digits; a huge one is untested, too
	}
	return v, true
}

func version(n *node) []Finding {
	name, number, why := n.product()
	if why != "" {
		return []Finding{unknown(why)}
	}
	v, ok := numbers(number)
	if ok && name == redisName && slices.Compare(v[:], oldest[:]) < 0 {
		return []Finding{fail("Take Redis 6.0.6 or newer.", "Redis %s lacks commands that locks need", number)}
	}
	tested, newest := "", [2]int{}
	for _, r := range releases {
		if r.product != name {
			continue
		}
		if v[0] == r.major && v[1] == r.minor {
			return []Finding{pass("%s %s; %s was tested", name, number, r.tested)}
		}
		tested, newest = tested+" "+r.tested, [2]int{r.major, r.minor}
	}
	switch {
	case tested == "":
		return []Finding{warn("Try your locks on it first; docs/servers.md has what is known of it.", "%s %s is not tested at all", name, number)}
	case slices.Compare(v[:2], newest[:]) > 0:
		return []Finding{warn("Nothing is known against it; see whether there is a newer holdfast.", "%s %s is newer than those that were tested:%s", name, number, tested)}
	}
	return []Finding{pass("%s %s; not tested itself, but%s were", name, number, tested)}
}

func role(n *node) []Finding {
	is, why := n.said("role")
	switch {
	case why != "":
		return []Finding{unknown(why)}
	case is == "master" && n.replica:
		return []Finding{warn("Look again in a moment: a failover may be under way.", "it was named as a replica, and is a primary")}
	case is == "master":
		return []Finding{pass("it is a primary")}
	case !n.replica:
		return []Finding{fail("Name the primary, or use redis+sentinel://.", "it is a replica of %s:%s, so it takes no writes",
			n.info["master_host"], n.info["master_port"])}
	case n.info["master_link_status"] != "up":
		return []Finding{warn("Check the network between them, and the log of the replica.", "this replica has no connection to its primary")}
	}
	return []Finding{pass("it is a replica")}
}

func clusterMode(n *node) []Finding {
	switch is, why := n.saidNumber("cluster_enabled"); {
	case why != "":
		return nil // the other checks say that INFO is refused
	case is == 1 && !n.target.IsCluster():
		return []Finding{fail("Put ?cluster=true behind the URL.", "it is one node of a cluster, and the URL is not of a cluster")}
	case is == 0 && n.target.IsCluster():
		return []Finding{fail("Name one host, without cluster=true.", "it is no cluster, and the URL is of one")}
	}
	return nil
}

func eviction(n *node) []Finding {
	policy, why := n.said("maxmemory_policy")
	if why != "" {
		return []Finding{unknown(why)}
	}
	limit, why := n.saidNumber("maxmemory")
	const do = "Set maxmemory-policy noeviction, in the configuration file, too; caches belong on another server."
	switch {
	case policy == "noeviction":
		return []Finding{pass("noeviction, so no lock is evicted")}
	case why == "" && limit == 0:
		return []Finding{warn(do, "%s evicts locks as soon as somebody sets maxmemory; now there is no limit", policy)}
	}
	return []Finding{fail(do, "%s evicts locks when memory is short (%s keys were evicted so far): two may then hold one lock", policy, n.info["evicted_keys"])}
}

func memory(n *node) []Finding {
	used, why := n.saidNumber("used_memory")
	if why != "" {
		return []Finding{unknown(why)}
	}
	limit, why := n.saidNumber("maxmemory")
	switch {
	case why != "":
		return []Finding{unknown(why)}
	case limit == 0:
		return []Finding{pass("%s used, no maxmemory", size(used))}
	case used >= limit:
		return []Finding{fail("Raise maxmemory, or delete keys.", "%s used of %s: writes are refused, so no lock can be taken", size(used), size(limit))}
	case used*100 >= limit*fullMemory:
		return []Finding{warn("Raise maxmemory, or delete keys.", "%s used of %s: when it is full no lock can be taken", size(used), size(limit))}
	}
	return []Finding{pass("%s used of %s", size(used), size(limit))}
}

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

func persistence(n *node) []Finding {
	aof, why := n.saidNumber("aof_enabled")
	switch {
	case why != "":
		return []Finding{unknown(why)}
	case n.info["loading"] == "1":
		return []Finding{fail("Wait until it has loaded its data.", "it has just started and still loads its data")}
	case aof == 1:
		return []Finding{appendOnly(n)}
	}
	save, why := n.setting("save")
	const do = "Set appendonly yes, with appendfsync always if a power failure must lose none, either; or use fencing tokens."
	switch stops, _ := n.setting("stop-writes-on-bgsave-error"); {
	case why != "":
		f := unknown("there is no append-only file; whether there are snapshots is not known, since " + why)
		return []Finding{f}
	case save == "":
		return []Finding{warn(do, "nothing is kept on disk: a restart forgets every lock that is held")}
	case n.info["rdb_last_bgsave_status"] == "err" && stops == "yes":
		return []Finding{fail("Its log says why; give it room on its disk.", "the last snapshot failed, so writes are refused and no lock can be taken")}
	}
	return []Finding{warn(do, "there are snapshots only (save %s): a restart forgets the locks that were taken since the last one", save)}
}

// appendOnly looks at the append-only file.
func appendOnly(n *node) Finding {
	if n.info["aof_last_write_status"] == "err" {
		return fail("Its log says why; give it room on its disk.", "the append-only file could not be written, so writes are refused")
	}
	switch fsync, why := n.setting("appendfsync"); {
	case why != "":
		return unknown("there is an append-only file; how soon it is on disk is not known, since " + why)
	case fsync == "always":
		return pass("appendonly, fsync always: a restart loses no lock")
	case fsync == "everysec":
		return pass("appendonly, fsync everysec: a restart loses no lock, a power failure about a second of them")
	default:
		return warn("Set appendfsync everysec, or always.", "appendonly with appendfsync %s: a power failure loses what the system had not written, half a minute perhaps", fsync)
	}
}

var replicaLine = regexp.MustCompile(`^slave\d+$`)

func replicas(n *node) (found []Finding) {
	if n.replica || n.info["role"] == "slave" {
		return nil
	}
	count, why := n.saidNumber("connected_slaves")
	if why != "" {
		return []Finding{unknown(why)}
	}
	const do = "Check the network between them and the log of the replica: what it lacks, a failover forgets."
	for name, line := range n.info {
		if !replicaLine.MatchString(name) {
			continue
		}
		state := fields(strings.ReplaceAll(strings.ReplaceAll(line, "=", ":"), ",", "\n"))
		who := state["ip"] + ":" + state["port"]
		if lag, err := strconv.Atoi(state["lag"]); state["state"] != "online" {
			found = append(found, warn(do, "the replica %s is not online: %s", who, state["state"]))
		} else if err != nil || lag >= replicaLag {
			found = append(found, warn(do, "the replica %s was last heard of %s s ago", who, state["lag"]))
		}
	}
	switch {
	case len(found) > 0:
		return found
	case count == 0:
		return []Finding{pass("none, so if this server is away no lock can be taken")}
	}
	return []Finding{pass("%d online; a failover may forget what was not replicated (WithReplicaAck)", count)}
}

func minReplicas(n *node) []Finding {
	if n.replica || n.info["role"] == "slave" {
		return nil
	}
	wanted, why := n.settingNumber("min-replicas-to-write")
	if why != "" {
		return []Finding{unknown(why)}
	}
	online, why := n.saidNumber("min_slaves_good_slaves")
	if why != "" {
		online, _ = n.saidNumber("connected_slaves") // INFO has the other only if it is used
	}
	switch {
	case wanted > online:
		return []Finding{fail("Bring replicas back, or lower min-replicas-to-write.",
			"writes need %d replicas, and %d are there, so no lock can be taken", wanted, online)}
	case wanted > 0 && wanted == online:
		return []Finding{warn("Have one replica more than writes need.", "writes need %d replicas, and no more are there: if one is away no lock can be taken", wanted)}
	case wanted == 0 && n.target.Master() != "":
		return []Finding{warn("Set min-replicas-to-write 1 and min-replicas-max-lag to a few seconds on every node.",
			"writes need no replica: a primary that is cut off goes on granting locks that the new one grants, too")}
	case wanted == 0:
		return []Finding{pass("writes need none")}
	}
	return []Finding{pass("writes need %d, %d are there", wanted, online)}
}

func outputBuffers(n *node) []Finding {
	text, why := n.setting("client-output-buffer-limit")
	if why != "" {
		return []Finding{unknown(why)}
	}
	words := strings.Fields(text)
	at := slices.Index(words, "pubsub")
	if at < 0 || at+3 >= len(words) {
		return []Finding{unknown("client-output-buffer-limit has nothing of pubsub")}
	}
	for _, word := range words[at+1 : at+3] { // hard and soft
		limit, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return []Finding{unknown("client-output-buffer-limit is not understood")}
		}
		if limit > 0 && limit < smallBuffer {
			return []Finding{warn("Set client-output-buffer-limit \"pubsub 32mb 8mb 60\", the default.",
				"pub/sub clients are cut off when %s wait for them: those who wait for locks then miss releases", size(limit))}
		}
	}
	return []Finding{pass("pubsub %s", strings.Join(words[at+1:at+4], " "))}
}

func idleTimeout(n *node) []Finding {
	seconds, why := n.settingNumber("timeout")
	switch {
	case why != "":
		return []Finding{unknown(why)}
	case seconds == 0:
		return []Finding{pass("idle connections stay")}
	case seconds < shortIdle:
		return []Finding{warn("Set timeout 0, or 60 and more.", "connections that idle for %d s are closed: many locks then wait for a new one", seconds)}
	}
	return []Finding{pass("connections that idle for %d s are closed, and made again", seconds)}
}

func keepalive(n *node) []Finding {
	seconds, why := n.settingNumber("tcp-keepalive")
	switch {
	case why != "":
		return []Finding{unknown(why)}
	case seconds == 0:
		return []Finding{warn("Set tcp-keepalive 300, the default.", "connections of dead clients are never found, and count toward maxclients")}
	}
	return []Finding{pass("dead clients are found after some %d s", seconds)}
}

func clients(n *node) []Finding {
	are, why := n.saidNumber("connected_clients")
	if why != "" {
		return []Finding{unknown(why)}
	}
	limit, why := n.saidNumber("maxclients")
	if why != "" {
		limit, why = n.settingNumber("maxclients")
	}
	const do = "Raise maxclients and the system's limit of open files, or use fewer connections a process."
	switch {
	case why != "":
		return []Finding{unknown(why)}
	case limit <= 0:
		return []Finding{pass("%d, no maxclients", are)}
	case are >= limit:
		return []Finding{fail(do, "%d connections of %d: new ones are refused", are, limit)}
	case are*100 >= limit*manyClients:
		return []Finding{warn(do, "%d connections of %d: when they are used up, new ones are refused", are, limit)}
	}
	if refused, why := n.saidNumber("rejected_connections"); why == "" && refused > 0 {
		return []Finding{warn(do, "%d connections were refused since it started; now there are %d of %d", refused, are, limit)}
	}
	return []Finding{pass("%d of %d", are, limit)}
}

// plainName is what a command's name looks like. The slow log also has what is none.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z.|_-]{0,31}$`)

func blocking(n *node) (found []Finding) {
	const do = "All locks wait while one command runs: use SCAN in place of KEYS, UNLINK in place of DEL, smaller scripts, or another server."
	if f, slow := slowest(n); slow {
		f.Do = do
		found = append(found, f)
	}
	means := n.slowOnTheWhole()
	if len(means) > 0 {
		found = append(found, warn(do, "on the whole these commands are slow: %s", strings.Join(means, ", ")))
	}
	switch {
	case len(found) > 0:
		return found
	case n.noSlow != "":
		return []Finding{unknown(n.noSlow)}
	case n.noInfo != "":
		return []Finding{unknown(n.noInfo)}
	}
	if micros, why := n.settingNumber("slowlog-log-slower-than"); why == "" && (micros < 0 || micros > slowCommand.Microseconds()) {
		return []Finding{unknown("the slow log does not note commands of " + slowCommand.String())}
	}
	return []Finding{pass("no command took %v in the last day, as far as the slow log goes", slowCommand)}
}

// slowest looks at the slow log. Arguments of commands may be secret, so only names are shown.
func slowest(n *node) (f Finding, slow bool) {
	count, longest, name := 0, time.Duration(0), ""
	for _, entry := range n.slow {
		if entry.Duration < slowCommand || n.now.Add(n.offset).Sub(entry.Time) > slowSince || len(entry.Args) == 0 {
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
	return warn("", "%d commands took %v or more in the last day; the longest, %s, %v", count, slowCommand, name, longest.Round(time.Millisecond)), count > 0
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
		values := fields(strings.ReplaceAll(strings.ReplaceAll(stats, "=", ":"), ",", "\n"))
		if mean, err := strconv.ParseFloat(values["usec_per_call"], 64); err == nil && mean >= float64(slowMean.Microseconds()) {
			names = append(names, fmt.Sprintf("%s (%s calls of %.0f ms)", strings.ToUpper(name), values["calls"], mean/1000))
		}
	}
	slices.Sort(names)
	return names
}

func scriptLimit(n *node) []Finding {
	millis, why := n.settingNumber("lua-time-limit") // the other name of busy-reply-threshold, which came with 7.0
	limit := time.Duration(millis) * time.Millisecond
	const do = "Set busy-reply-threshold 5000 (before 7.0: lua-time-limit), the default."
	switch {
	case why != "":
		return []Finding{unknown(why)}
	case limit <= 0:
		return []Finding{warn(do, "a script that hangs cannot be killed: until then no lock is renewed")}
	case limit > lease/2:
		return []Finding{warn(do, "a script that hangs can be killed after %v only: leases of %v end before all is well", limit, lease)}
	}
	return []Finding{pass("a script that hangs can be killed after %v", limit)}
}
