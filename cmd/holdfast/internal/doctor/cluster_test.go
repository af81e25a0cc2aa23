package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1)
	options := connect.Options{URL: "redis://" + strings.Join(cluster.Addrs(), ",")}
	sharded := redistest.AtLeast(t, 7, 0)
	s := look(t, options)
	s.nothingWorse(Pass, "persistence", "cluster-messages")
	for _, check := range []string{"cluster-state", "cluster-replicas", "cluster-versions", "cluster-timeout", "eviction", "rights", "locks"} {
		s.finds(check, Pass, "")
	}
	s.finds("cluster-messages", map[bool]Severity{true: Pass, false: Warning}[sharded], "")
	if got := s.of("reachable"); len(got) != 6 {
		t.Errorf("%d nodes: %+v", len(got), got)
	}
	if found := s.of("persistence"); len(found) != 1 || len(found[0].Where) != 0 {
		t.Errorf("what is so everywhere is not one finding: %+v", found)
	}
	for _, node := range cluster.Nodes {
		leavesNothing(t, node)
	}

	// One node is configured badly.
	cluster.Nodes[2].Cli(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	cluster.Nodes[2].Cli(t, "CONFIG", "SET", "cluster-node-timeout", "30000")
	s = look(t, options)
	s.finds("eviction", Warning, cluster.Nodes[2].Addr())
	s.finds("cluster-timeout", Warning, "a failover begins after 30s")

	// A user with rights on one node only.
	server := rights.Server{Cluster: true}
	if !sharded {
		server.Version = rights.Redis62
	}
	rules := withLine(rights.Kinds()[0], "orders:*", server)
	primaries, _ := cluster.Roles(t)
	for i, node := range cluster.Nodes {
		with := rules
		if node == primaries[1] {
			with = slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return rule == "+hset" })
		}
		allow(t, cluster.Nodes[i], "bob", with)
	}
	limited := connect.Options{URL: strings.Replace(options.URL, "redis://", "redis://bob:pw@", 1)}
	s = look(t, limited, func(c *Config) { c.Prefix, c.Kinds = "orders", []string{"mutex"} })
	s.finds("rights", Failure, "this user lacks +hset "+primaries[1].Addr())
	if found := s.of("rights"); len(found) != 2 {
		t.Errorf("%+v", found)
	}
	s.finds("locks", Pass, "mutex")
	if sharded {
		for _, node := range cluster.Nodes {
			allow(t, node, "bob", slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return strings.HasPrefix(rule, "&holdfast") }))
		}
		look(t, limited, func(c *Config) { c.Prefix, c.Kinds = "orders", []string{"mutex"} }).finds("rights", Warning, "do not stand in line: this user lacks &holdfast_waitlist:{orders*}:*")
	}

	// It may not ask one node how messages are sent, nor who owns which slot.
	asks := func(rule string) bool {
		return strings.HasPrefix(rule, "+cluster") || strings.HasPrefix(rule, "+pubsub")
	}
	allow(t, primaries[2], "bob", slices.DeleteFunc(slices.Clone(rules), asks))
	s = look(t, limited, func(c *Config) { c.Prefix, c.Kinds = "orders", []string{"mutex"} })
	s.finds("rights", Failure, "this user lacks +cluster|slots +pubsub|shardnumsub "+primaries[2].Addr())
}

func TestClusterWithoutReplicas(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	options := connect.Options{URL: "redis://" + cluster.Addrs()[0] + "?cluster=true"}
	look(t, options).finds("cluster-replicas", Warning, "this primary has no replica")
	for _, node := range cluster.Nodes {
		node.Cli(t, "CLUSTER", "DELSLOTS", "0")
	}
	s := look(t, options)
	s.finds("cluster-state", Failure, "1 of 16384 slots have no node")
	look(t, connect.Options{URL: options.URL + "&db=3"}).finds("reachable", Failure, "this cluster has no database numbers")

	cluster.Nodes[1].Kill()
	until(t, "it is taken for down", func() bool {
		return strings.Contains(cluster.Nodes[0].Cli(t, "CLUSTER", "INFO"), "cluster_state:fail")
	})
	s = look(t, options, func(c *Config) { c.Timeout = 20 * time.Second })
	s.finds("reachable", Failure, cluster.Nodes[1].Addr()+" cannot be used")
	s.finds("cluster-state", Failure, "slots")
	if s.report.Unreachable {
		t.Error("two nodes answer")
	}
}

func TestNoCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := look(t, connect.Options{URL: "redis://" + server.Addr() + "?cluster=true"})
	s.finds("cluster-mode", Failure, "it is no cluster")
	s.finds("reachable", Failure, "not all nodes are known: it is no cluster")
}

func TestClusterVersions(t *testing.T) {
	t.Parallel()
	e := &exam{nodes: []*node{{info: fields("redis_version:7.0.15")}, {info: fields("redis_version:8.0.2")}}}
	if got := clusterVersions(t.Context(), e); len(got) != 1 || got[0].Severity != Warning || !strings.Contains(got[0].Found, "Redis 7.0.15, Redis 8.0.2") {
		t.Errorf("%+v", got)
	}
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1, 3)
	options := connect.Options{URL: "redis+sentinel://:s3cret@" + strings.Join(sentinel.Addrs(), ",") + "/" + sentinel.MasterName()}
	options.URL = strings.Replace(options.URL, ":s3cret@", "", 1)
	s := look(t, options)
	s.finds("sentinels", Pass, "3, quorum 2, failover after 1s")
	s.finds("min-replicas", Warning, "a primary that is cut off goes on")
	s.finds("role", Pass, "it is a replica")
	s.finds("locks", Pass, "all kinds")
	s.nothingWorse(Pass, "persistence", "min-replicas")
	if got := s.of("reachable"); len(got) != 2 {
		t.Errorf("%+v", got)
	}
	for _, node := range sentinel.Nodes {
		if left := node.Cli(t, "KEYS", "*"); left != "" {
			t.Errorf("left behind: %s", left)
		}
	}
	set := func(name, value string) {
		for _, one := range sentinel.Sentinels {
			one.Cli(t, "SENTINEL", "SET", sentinel.MasterName(), name, value)
		}
	}
	set("down-after-milliseconds", "60000")
	look(t, options).finds("sentinels", Warning, "a failover begins after 1m0s")
	set("down-after-milliseconds", "300")
	look(t, options).finds("sentinels", Warning, "after 300ms already")
	set("down-after-milliseconds", "20000")
	set("quorum", "1")
	look(t, options).finds("sentinels", Warning, "a quorum of 1 is no majority of 3")
	set("quorum", "4")
	look(t, options).finds("sentinels", Failure, "no failover can happen")
	set("quorum", "2")
	sentinel.Sentinels[1].Kill()
	look(t, options).finds("sentinels", Warning, "the sentinel "+sentinel.Sentinels[1].Addr()+" cannot be used")
	look(t, connect.Options{URL: "redis+sentinel://" + sentinel.Addrs()[0] + "/other"}).finds("sentinels", Failure, "the sentinels know no master of that name")
}

func TestFewSentinels(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1, 1)
	url := connect.Options{URL: "redis+sentinel://" + sentinel.Addrs()[0] + "/" + sentinel.MasterName()}
	look(t, url).finds("sentinels", Warning, "fewer than three sentinels (1)")
	s := look(t, connect.Options{URL: "redis+sentinel://" + sentinel.Primary(t).Addr() + "/m"})
	s.finds("sentinels", Failure, "it is no sentinel")
}
