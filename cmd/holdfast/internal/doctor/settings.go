package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file looks at how a server is set, and how full it is.

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
