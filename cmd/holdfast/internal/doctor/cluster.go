package doctor

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

const (
	slots = 16384
	// fewSentinels cannot agree when one of them is away, and slowFailover leaves too little of
	// a lease for the failover itself.
	fewSentinels = 3
	slowFailover = 15 * time.Second
	quickSuspect = time.Second
)

func clusterState(n *node) findings {
	if n.noClusterInfo != "" {
		return unknown(n.noClusterInfo)
	}
	const do = "Bring the nodes back that own the missing slots; redis-cli --cluster check says which."
	info := n.clusterInfo
	assigned, covered := number(info["cluster_slots_assigned"]), number(info["cluster_slots_ok"])
	switch {
	case assigned < slots:
		return fail(do, "%d of %d slots have no node: locks whose names fall there cannot be taken", slots-assigned, slots)
	case covered < slots:
		return fail(do, "the nodes of %d of %d slots are down: locks whose names fall there cannot be taken",
			slots-covered, slots)
	case info["cluster_state"] != "ok":
		return fail(do, "it takes the cluster for %q", info["cluster_state"])
	}
	return pass("well, all %d slots are covered", slots)
}

func clusterReplicas(n *node) findings {
	if n.replica {
		return nil
	}
	if n.saysNumber("connected_slaves") == 0 {
		return warn("Give each primary a replica: redis-cli --cluster add-node NEW ANY --cluster-slave.",
			"this primary has no replica: if it is away, its locks cannot be taken")
	}
	return pass("each primary has one")
}

func clusterVersions(_ context.Context, e *exam) findings {
	var versions []string
	for _, n := range e.reached() {
		name, number := n.product()
		if number == "" {
			return nil // another check says so
		}
		versions = append(versions, name+" "+number)
	}
	versions = unique(versions)
	switch {
	case len(e.nodes) < 2:
		return nil
	case len(versions) > 1:
		return warn("Bring all nodes to one version soon.",
			"the nodes have several versions: %s", strings.Join(versions, ", "))
	}
	return pass("all nodes have one")
}

func clusterTimeout(n *node) findings {
	after := protocol.Milliseconds(n.settingNumber("cluster-node-timeout"))
	if after > slowFailover {
		return warn("Set cluster-node-timeout 15000 or less, or use longer leases.",
			"a failover begins after %v; a lease of %v bears an outage of %v", after, lease, outage)
	}
	return pass("a failover begins after %v", after)
}

func clusterMessages(ctx context.Context, _ *exam, n *node) findings {
	err := n.client.PubSubShardNumSub(ctx, "holdfast_doctor").Err()
	var answered redis.Error
	switch {
	case err == nil:
		return pass("sharded")
	case errors.As(err, &answered) && lacking(err) == nothing: // it does not know the command
		return warn("Take Redis 7.0 or newer, or locks that poll.",
			"messages are not sharded: every release is sent to every node")
	}
	return unknown(refusal("PUBSUB SHARDNUMSUB", err))
}

func sentinels(_ context.Context, e *exam) (found findings) {
	primary, answers := "", slices.ContainsFunc(e.watchers, func(s *sentinel) bool { return s.err == nil })
	for _, s := range e.watchers {
		f := s.check()
		switch {
		case s.err != nil && answers: // the others can do without it
			f[0].Severity = Warning
		case s.err == nil && primary != "" && s.primary() != primary:
			f = fail("Look again in a moment: a failover may be under way. Else check that they can reach each other.",
				"it names the primary %s, another one %s", s.primary(), primary)
		}
		if s.err == nil {
			primary = s.primary()
		}
		found = append(found, f.at(s.addr)...)
	}
	return found
}

// check looks at what one sentinel says.
func (s *sentinel) check() findings {
	if s.err != nil {
		return fail("Check that it runs, and the URL; HOLDFAST_REDIS_SENTINEL_PASSWORD is its password.",
			"the sentinel %s cannot be used: %v", s.addr, connect.ExplainSentinel(s.err))
	}
	count, quorum := number(s.master["num-other-sentinels"])+1, number(s.master["quorum"])
	after := protocol.Milliseconds(int64(number(s.master["down-after-milliseconds"])))
	const countDo = "Have three sentinels or more, an odd number, on machines that fail one by one."
	afterDo := "Set SENTINEL SET " + s.master["name"] + " down-after-milliseconds 5000, on each."
	switch {
	case s.quorum != nil:
		return fail(countDo, "no failover can happen: %v", s.quorum)
	case strings.Contains(s.master["flags"], "down"):
		return fail("Check that the primary runs.", "it takes the primary %s for down", s.primary())
	case len(s.replicas) == 0:
		return warn("Give the primary a replica.", "the primary has no replica, so nothing can take its place")
	case count < fewSentinels:
		return warn(countDo, "there are fewer than three sentinels (%d): if one is away no failover can happen", count)
	case quorum <= count/2:
		return warn("Set the quorum of SENTINEL MONITOR to "+strconv.Itoa(count/2+1)+".",
			"a quorum of %d is no majority of %d sentinels", quorum, count)
	case after > slowFailover:
		return warn(afterDo, "a failover begins after %v; a lease of %v bears an outage of %v", after, lease, outage)
	case after < quickSuspect:
		return warn(afterDo, "a failover begins after %v already, so a slow moment of the primary can lose locks", after)
	}
	return pass("%d, quorum %d, failover after %v", count, quorum, after)
}
