package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestFacts has each check of a node look at what is rare on a server that a test can start.
func TestFacts(t *testing.T) {
	t.Parallel()
	const online = "\nslave0:ip=10.0.0.2,port=6379,state=online,offset=5,lag=0"
	clusterInfo := func(state string, assigned, covered int) string {
		return fmt.Sprintf("cluster_state:%s\ncluster_slots_assigned:%d\ncluster_slots_ok:%d", state, assigned, covered)
	}
	for _, c := range []struct {
		check, info, config string
		replica             bool
		severity            Severity
		says                string
	}{
		{"version", "redis_version:7.0.15", "", false, Pass, "Redis 7.0.15; 7.0.15 was tested"},
		{"version", "redis_version:7.4.2", "", false, Pass, "not tested itself"},
		{"version", "redis_version:6.0.5", "", false, Failure, "lacks commands"},
		{"version", "redis_version:5.0.14", "", false, Failure, "lacks commands"},
		{"version", "redis_version:9.0.0", "", false, Warning, "is newer than those that were tested: 6.0.16 7.0.15 8.0.2"},
		{"version", "redis_version:7.2.4\nvalkey_version:8.1.3", "", false, Pass, "Valkey 8.1.3; 8.1.1 was tested"},
		{"version", "redis_version:7.2.4\nvalkey_version:9.0.0", "", false, Warning, "Valkey 9.0.0 is newer"},
		{"version", "redis_version:7.4.0\ndragonfly_version:df-v1.30.0", "", false, Warning, "not tested at all"},
		{"version", "", "", false, Unknown, "INFO has no redis_version"},
		{"role", "role:master", "", false, Pass, "a primary"},
		{"role", "role:slave\nmaster_host:h\nmaster_port:1", "", false, Failure, "a replica of h:1"},
		{"role", "role:slave\nmaster_link_status:down", "", true, Warning, "no connection to its primary"},
		{"role", "role:slave\nmaster_link_status:up", "", true, Pass, "a replica"},
		{"role", "role:master", "", true, Warning, "named as a replica, and is a primary"},
		{"role", "", "", false, Unknown, "INFO has no role"},
		{"eviction", "maxmemory_policy:noeviction\nmaxmemory:5", "", false, Pass, "noeviction"},
		{"eviction", "maxmemory_policy:volatile-lru\nmaxmemory:5\nevicted_keys:7", "", false, Failure, "7 keys were evicted"},
		{"eviction", "maxmemory_policy:volatile-lru\nmaxmemory:0", "", false, Warning, "as soon as"},
		{"memory", "used_memory:899\nmaxmemory:1000", "", false, Pass, "0.9 KB used of 1.0 KB"},
		{"memory", "used_memory:900\nmaxmemory:1000", "", false, Warning, "when it is full"},
		{"memory", "used_memory:1000\nmaxmemory:1000", "", false, Failure, "writes are refused"},
		{"memory", "used_memory:3221225472\nmaxmemory:0", "", false, Pass, "3.0 GB used, no maxmemory"},
		{"memory", "used_memory:x", "", false, Unknown, "no number"},
		{"memory", "used_memory:1000\nmaxmemory:9000000000000000000", "", false, Pass, "1.0 KB used of"},
		{"memory", "used_memory:8999999999999999999\nmaxmemory:9000000000000000000", "", false, Warning, "when it is full"},
		{"clients", "connected_clients:9223372036854775806", "maxclients:9223372036854775807", false, Warning, "when they are used up"},
		{"script-limit", "", "lua-time-limit:9223372036854775807", false, Warning, "can be killed after 2562047h"},
		{"script-limit", "", "lua-time-limit:-9223372036854775808", false, Warning, "cannot be killed"},
		{"persistence", "aof_enabled:0\nloading:1", "", false, Failure, "still loads"},
		{"persistence", "aof_enabled:1\naof_last_write_status:err", "appendfsync:always", false, Failure, "could not be written"},
		{"persistence", "aof_enabled:1\naof_last_write_status:ok", "appendfsync:always", false, Pass, "loses no lock"},
		{"persistence", "aof_enabled:1", "appendfsync:everysec", false, Pass, "a power failure about a second"},
		{"persistence", "aof_enabled:1", "", false, Unknown, "there is an append-only file"},
		{"persistence", "aof_enabled:0", "", false, Unknown, "there is no append-only file"},
		{"persistence", "aof_enabled:0\nrdb_last_bgsave_status:err", "save:1 1\nstop-writes-on-bgsave-error:no", false, Warning, "snapshots only"},
		{"persistence", "aof_enabled:0\nrdb_last_bgsave_status:err", "save:1 1\nstop-writes-on-bgsave-error:yes", false, Failure, "the last snapshot failed"},
		{"replicas", "role:master\nconnected_slaves:1" + online, "", false, Pass, "1 online"},
		{"replicas", "role:master\nconnected_slaves:1" + strings.Replace(online, "online", "wait_bgsave", 1), "", false, Warning, "10.0.0.2:6379 is not online: wait_bgsave"},
		{"replicas", "role:master\nconnected_slaves:1" + strings.Replace(online, "lag=0", "lag=5", 1), "", false, Warning, "10.0.0.2:6379 was last heard of 5 s ago"},
		{"replicas", "role:master\nconnected_slaves:0", "", false, Pass, "none; a failover needs one"},
		{"replicas", "role:slave", "", true, "", ""},
		{"min-replicas", "role:master\nmin_slaves_good_slaves:2", "min-replicas-to-write:1", false, Pass, "writes need 1, 2 are there"},
		{"min-replicas", "role:master\nmin_slaves_good_slaves:1", "min-replicas-to-write:1", false, Warning, "no more are there"},
		{"min-replicas", "role:master\nmin_slaves_good_slaves:0\nconnected_slaves:1", "min-replicas-to-write:1", false, Failure, "1 replicas, and 0 are there"},
		{"output-buffers", "", "client-output-buffer-limit:normal 0 0 0 slave 1 1 1 pubsub 0 0 0", false, Pass, "pubsub 0 0 0"},
		{"output-buffers", "", "client-output-buffer-limit:normal 0 0 0 pubsub 1048576 1048575 60", false, Warning, "1024.0 KB"},
		{"output-buffers", "", "client-output-buffer-limit:pubsub 33554432 32768 10", false, Warning, "when 32.0 KB wait"},
		{"output-buffers", "", "client-output-buffer-limit:normal 0 0 0", false, Unknown, "nothing of pubsub"},
		{"output-buffers", "", "client-output-buffer-limit:pubsub 32mb 8mb 60", false, Unknown, "not understood"},
		{"idle-timeout", "", "timeout:59", false, Warning, "59 s"},
		{"idle-timeout", "", "timeout:60", false, Pass, "60 s"},
		{"tcp-keepalive", "", "tcp-keepalive:0", false, Warning, "never found"},
		{"clients", "connected_clients:79\nmaxclients:100\nrejected_connections:0", "", false, Pass, "79 of 100"},
		{"clients", "connected_clients:80", "maxclients:100", false, Warning, "80 connections of 100"},
		{"clients", "connected_clients:100", "maxclients:100", false, Failure, "new ones are refused"},
		{"clients", "connected_clients:1\nmaxclients:100\nrejected_connections:3", "", false, Warning, "3 connections were refused"},
		{"clients", "connected_clients:1", "", false, Unknown, "CONFIG does not know maxclients"},
		{"blocking", "cmdstat_keys:calls=3,usec=60000,usec_per_call=20000.00,rejected_calls=0", "slowlog-log-slower-than:1", false, Warning, "KEYS (3 calls of 20 ms)"},
		{"blocking", "cmdstat_psync:calls=3,usec=60000,usec_per_call=20000.00", "slowlog-log-slower-than:1", false, Pass, "no command"},
		{"blocking", "cmdstat_get:calls=3,usec=60,usec_per_call=20.00", "slowlog-log-slower-than:100001", false, Unknown, "slow log"},
		{"cluster-state", clusterInfo("ok", slots, slots), "", false, Pass, "all 16384 slots are covered"},
		{"cluster-state", clusterInfo("fail", 16000, 16000), "", false, Failure, "384 of 16384 slots have no node"},
		{"cluster-state", clusterInfo("ok", slots, 16383), "", false, Failure, "the nodes of 1 of 16384 slots are down"},
		{"cluster-state", clusterInfo("fail", slots, slots), "", false, Failure, `it takes the cluster for "fail"`},
		{"script-limit", "", "lua-time-limit:15001", false, Warning, "only"},
		{"script-limit", "", "lua-time-limit:15000", false, Pass, "15s"},
		{"script-limit", "", "lua-time-limit:0", false, Warning, "cannot be killed"},
	} {
		target, err := connect.Options{URL: "redis://h"}.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		n := &node{info: fields(c.info), config: fields(c.config), replica: c.replica, target: target}
		n.clusterInfo = n.info
		var got []Finding
		for _, check := range Checks {
			if check.ID == c.check {
				got = check.on(n)
			}
		}
		if c.severity == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0].Severity != c.severity || !strings.Contains(got[0].Found, c.says) {
			t.Errorf("%s of %q, %q: %+v", c.check, c.info, c.config, got)
		}
	}
}

// TestSlowLog counts what is slow and not long ago, and shows no argument.
func TestSlowLog(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	entry := func(took, ago time.Duration, args ...string) redis.SlowLog {
		return redis.SlowLog{Duration: took, Time: now.Add(-ago), Args: args}
	}
	n := &node{now: now, slow: []redis.SlowLog{
		entry(slowCommand-1, 0, "GET", "s3cret"), entry(time.Second, slowSince+time.Second, "DEL", "s3cret"),
		entry(2*time.Second, time.Hour, "keys", "s3cret"), entry(slowCommand, 0, "EVAL", "s3cret"), entry(time.Hour, 0),
	}}
	if said := n.slowest(); !strings.HasPrefix(said, "2 commands took 100ms or more in the last day; the longest, KEYS, 2s") {
		t.Error(said)
	}
	n.slow = append(n.slow, entry(3*time.Second, 0, "s3cret password!", "x"))
	if said := n.slowest(); !strings.Contains(said, "the longest, a command, 3s") || strings.Contains(said, "s3cret") {
		t.Error(said)
	}
}

// TestSentinelFacts has sentinels that see what a test cannot bring about quickly.
func TestSentinelFacts(t *testing.T) {
	t.Parallel()
	one := func(change ...string) *sentinel {
		s := &sentinel{addr: "s:1", replicas: []map[string]string{{"ip": "b", "port": "1"}}, master: map[string]string{
			"name": "m", "ip": "a", "port": "1", "flags": "master", "num-other-sentinels": "2", "quorum": "2", "down-after-milliseconds": "5000",
		}}
		for i := 0; i+1 < len(change); i += 2 {
			s.master[change[i]] = change[i+1]
		}
		return s
	}
	alone := one()
	alone.replicas = nil
	divided := one()
	divided.quorum = errors.New("NOQUORUM 1 usable Sentinels")
	for _, c := range []struct {
		all      []*sentinel
		severity Severity
		says     string
	}{
		{[]*sentinel{one()}, Pass, "3, quorum 2, failover after 5s"},
		{[]*sentinel{one("flags", "s_down,master")}, Failure, "takes the primary a:1 for down"},
		{[]*sentinel{alone}, Warning, "no replica"},
		{[]*sentinel{divided}, Failure, "NOQUORUM"},
		{[]*sentinel{one("num-other-sentinels", "1")}, Warning, "fewer than three sentinels (2)"},
		{[]*sentinel{one("quorum", "1")}, Warning, "no majority"},
		{[]*sentinel{one("down-after-milliseconds", "15001")}, Warning, "15.001s"},
		{[]*sentinel{one("down-after-milliseconds", "999")}, Warning, "999ms already"},
		{[]*sentinel{one(), one("ip", "other")}, Failure, "it names the primary other:1, another one a:1"},
		{[]*sentinel{one(), {addr: "s:2", err: errors.New("away")}}, Warning, "the sentinel s:2 cannot be used"},
		{[]*sentinel{{addr: "s:2", err: errors.New("away")}}, Failure, "the sentinel s:2 cannot be used"},
	} {
		got := sentinels(t.Context(), &exam{watchers: c.all})
		if last := got[len(got)-1]; last.Severity != c.severity || !strings.Contains(last.Found, c.says) {
			t.Errorf("%q: %+v", c.says, got)
		}
	}
}

// TestPassword has a server elsewhere that asks for none.
func TestPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	target, err := at(server).Resolve()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{addr: server.Addr(), target: target, client: target.Node(server.Addr(), target.Dial)}
	defer n.client.Close()
	e := &exam{Config: Config{Target: target}, nodes: []*node{n}}
	for addr, want := range map[string]Severity{
		server.Addr(): Pass, "localhost:1": Pass, "[::1]:1": Pass, "10.0.0.1:6379": Warning, "redis.example:6379": Warning,
	} {
		n.addr = addr
		if got := password(t.Context(), e); len(got) != 1 || got[0].Severity != want {
			t.Errorf("%s: %+v", addr, got)
		}
	}
}
