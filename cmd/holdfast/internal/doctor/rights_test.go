package doctor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
)

// rules are a kind's rights as ACL SETUSER takes them.
func rulesOf(k rights.Kind, name string) []string {
	return k.And(rights.OfClient(rights.GoRedis)).Rules(name)
}

// withLine are those with the line's, if there is one for it, on such a server.
func withLine(k rights.Kind, name string, s rights.Server) []string {
	all := k.And(rights.OfClient(rights.GoRedis))
	if k.Listed() {
		all = all.And(rights.Line())
	}
	return rights.Topology(rights.GoRedis, s).And(all.On(s)).Rules(name)
}

// allow makes a user. Rights on channels came with Redis 6.2.
func allow(t *testing.T, s *redistest.Server, user string, rules []string) {
	t.Helper()
	if !redistest.AtLeast(t, 6, 2) {
		rules = slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return rule[0] == '&' })
	}
	s.Cli(t, append([]string{"ACL", "SETUSER", user, "reset", "on", ">pw"}, rules...)...)
}

// TestRights gives a user the rights of each kind, and then all but one of them: that one is named.
func TestRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, k := range rights.Kinds() {
		own, all := rulesOf(k, "orders:*"), withLine(k, "orders:*", rights.Server{})
		allow(t, server, "bob", all)
		if found := lookAtRights(t, server, k); len(found) != 1 || found[0].Severity != Pass {
			t.Errorf("%s: %+v", k.ID(), found)
		}
		for i, rule := range all {
			if rule[0] == '&' && !redistest.AtLeast(t, 6, 2) {
				continue
			}
			allow(t, server, "bob", slices.Delete(slices.Clone(all), i, i+1))
			found := lookAtRights(t, server, k)
			want, inLine := Failure, !slices.Contains(own, rule)
			if strings.HasSuffix(rule, "subscribe") || rule == "+ping" || inLine {
				want = Warning
			}
			lacks := strings.ReplaceAll(rule, "orders:*", "orders*")                               // the prefix and a star
			if rule == "+ping" && !slices.Contains(k.Commands, "UNSUBSCRIBE") || rule == "+eval" { // see TestWithoutEval
				want, lacks = Pass, "all that is needed"
			}
			if inLine && (len(found) != 2 || found[0].Severity != Pass || !strings.Contains(found[1].Found, "it works, but those who wait do not stand in line")) {
				t.Errorf("%s without %s: %+v", k.ID(), rule, found)
			}
			f := found[len(found)-1]
			if f.Severity != want || !slices.Contains(strings.Fields(f.Found), lacks) && want != Pass {
				t.Errorf("%s without %s: %+v", k.ID(), rule, found)
			}
			if lost := strings.Count(f.Found, " +") + strings.Count(f.Found, " ~") + strings.Count(f.Found, " &"); want != Pass && lost != 1 && rule != "+del" {
				t.Errorf("%s without %s: it misses more: %s", k.ID(), rule, f.Found)
			}
		}
	}
	leavesNothing(t, server)
}

// lookAtRights looks at one kind's rights.
func lookAtRights(t *testing.T, s *redistest.Server, k rights.Kind) []Finding {
	t.Helper()
	target, err := connect.Options{URL: "redis://bob:pw@" + s.Addr()}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	rdb := target.Client(target.Dial)
	defer rdb.Close()
	n := &node{addr: s.Addr(), client: rdb.(*redis.Client), target: target}
	e := &exam{Config: Config{Target: target, Prefix: "orders", Kinds: []string{k.ID()}}, redis: rdb, nodes: []*node{n}}
	return tryRights(t.Context(), e, n)
}

// TestLimitedUser says which kinds work, and that the prefix is wrong.
func TestLimitedUser(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	allow(t, server, "bob", rulesOf(rights.Kinds()[0], "orders:*"))
	options := connect.Options{URL: "redis://bob:pw@" + server.Addr()}
	look(t, options).finds("rights", Failure, "this user may not use keys such as holdfast_doctor")
	orders := func(c *Config) { c.Prefix = "orders" }
	s := look(t, options, orders)
	s.finds("rights", Pass, "mutex, non-reentrant, polling")
	s.finds("rights", Warning, "these kinds do not work for this user: fenced, fair,")
	s.finds("rights", Warning, "mutex, non-reentrant: it works, but those who wait do not stand in line: this user lacks +get +pubsub|numsub +set +zadd")
	s.finds("locks", Pass, "mutex, non-reentrant, polling")
	if s.report.Worst != Warning {
		t.Errorf("at worst it is %s", s.report.Worst)
	}
	look(t, options, orders, func(c *Config) { c.Detailed = true }).finds("rights", Warning, "fenced: it does not work: this user lacks +get +set ~redisson_lock_token:{orders*}")
	look(t, options, orders, func(c *Config) { c.Kinds = []string{"fenced"} }).finds("rights", Failure, "+get +set")
	leavesNothing(t, server)
}

// TestTenantsRights finds the rights of a tenant if it knows which, and lacks those of all clients otherwise.
func TestTenantsRights(t *testing.T) {
	t.Parallel()
	if !redistest.AtLeast(t, 6, 2) {
		return // without rights on channels every user has those of all clients
	}
	server := redistest.Start(t)
	own := rights.Kinds()[0].And(rights.OfClient(rights.GoRedis)).And(rights.Line()).For("orders:*", "billing")
	allow(t, server, "bob", own.Rules(""))
	as := func(tenant string) *seen {
		return look(t, connect.Options{URL: "redis://bob:pw@" + server.Addr(), Tenant: tenant}, func(c *Config) { c.Prefix, c.Kinds = "orders", []string{"mutex"} })
	}
	as("billing").finds("rights", Pass, "mutex")
	for tenant, lacks := range map[string]string{
		"": "&holdfast_granted:*", "sales": "&holdfast_granted:" + protocol.TenantPrefix("sales") + "*",
	} {
		s := as(tenant)
		s.finds("rights", Warning, "do not stand in line: this user lacks "+lacks)
		for _, f := range s.findings {
			if f.Check == "rights" && f.Severity == Warning && !strings.Contains(f.Do, "--tenant") {
				t.Errorf("it has more rights given to the user of a tenant: %s", f.Do)
			}
		}
	}
}

// TestNobodysRights has a user who may do nothing.
func TestNobodysRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	allow(t, server, "bob", []string{"~*"})
	s := look(t, connect.Options{URL: "redis://bob:pw@" + server.Addr()})
	s.finds("reachable", Pass, "")
	s.finds("rights", Failure, "this user lacks +")
	if got := s.of("locks"); len(got) != 0 {
		t.Errorf("locked without rights: %+v", got)
	}
}

// TestTriesEnd has each kind tried, and not cleaned up: what is left ends by itself, soon.
func TestTriesEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	target, err := at(server).Resolve()
	if err != nil {
		t.Fatal(err)
	}
	e := testExam(t, target)
	for _, k := range rights.Kinds() {
		name := "tried:" + k.ID()
		if err := (trial{client: e.locks, redis: e.redis, name: name}).try(t.Context(), k); err != nil {
			t.Errorf("%s: %v", k.ID(), err)
		}
		for key := range strings.FieldsSeq(server.Cli(t, "KEYS", "*")) {
			if ttl := e.redis.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > 2*time.Minute {
				t.Errorf("%s leaves %s, which ends in %v", k.ID(), key, ttl)
			}
		}
		if err := e.remove(t.Context(), k, name); err != nil {
			t.Error(err)
		}
		leavesNothing(t, server)
	}
	if err := (trial{redis: e.redis, name: "ready"}).ready(context.Background()); err != nil {
		t.Fatal(err)
	}
	if ttl := e.redis.PTTL(t.Context(), "ready").Val(); ttl <= 0 || ttl > scratchTTL+time.Second {
		t.Errorf("a semaphore ends in %v", ttl)
	}
}
