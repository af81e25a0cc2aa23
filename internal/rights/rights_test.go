package rights

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

var update = flag.Bool("update", false, "write the tables into docs/acl.md")

// TestACLDocument compares docs/acl.md with the rights here. make generate writes its tables.
func TestACLDocument(t *testing.T) {
	t.Parallel()
	const file = "../../docs/acl.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := withTables(t, string(text))
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != string(text) {
		t.Error("the tables in docs/acl.md are not those of the scripts: run make generate")
	}
	for _, part := range []string{
		"| " + code(shown(Identity().Keys)) + ", and " + code(Identity().Commands) + " on it |",
		"`Expire` and `Delete` need " + code(expiring().Commands) + " besides",
		"`WithReplicaAck` needs " + code(Replicas.Commands) + " besides",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("docs/acl.md should have\n%s", part)
		}
	}
}

// withTables returns the page with the tables of the rights in the places of its own.
func withTables(t *testing.T, page string) string {
	t.Helper()
	const kinds = "| kind | commands | keys | channels |\n|---|---|---|---|\n"
	var locks, others, line string
	for _, k := range Kinds() {
		if k.Number {
			others += row(k.Name, k.Rights)
		} else {
			locks += row(k.Name, k.Rights)
		}
	}
	sharded := Server{Cluster: true}
	for _, w := range []struct {
		of     string
		rights Rights
	}{{"", Line()}, {"fair, ", kindOf(protocol.Variant{Kind: protocol.FairKind}).Waiting}} {
		line += row(w.of+"on a single server", w.rights) + row(w.of+"on a cluster with sharded messages", w.rights.On(sharded))
	}
	var done strings.Builder
	for _, table := range []struct{ head, rows string }{
		{kinds, locks},
		{kinds, others},
		{"| the line | commands | keys | channels |\n|---|---|---|---|\n", line},
		{
			"| client | on every server | on a cluster | does without |\n|---|---|---|---|\n",
			clientRow(GoRedis, GoRedis) + clientRow(Rueidis+", "+ValkeyGo, Rueidis),
		},
		{
			"| to | commands |\n|---|---|\n",
			"| `show` | " + code(Show.Commands) + " |\n" +
				"| `ls`, `watch`, `dashboard` | those of `show`, " + code(List.Commands) + " |\n" +
				"| `wait` | those of `show`, " + code(Wait.Commands) + " |\n",
		},
	} {
		before, after, found := strings.Cut(page, table.head)
		if !found {
			t.Fatalf("docs/acl.md has no table\n%s", table.head)
		}
		_, after, _ = strings.Cut(after, "\n\n")
		done.WriteString(before + table.head + table.rows + "\n")
		page = after
	}
	return done.String() + page
}

func clientRow(name, client string) string {
	slots := code(Topology(client, Server{Cluster: true, Version: Redis70}).Commands)
	if now := code(Topology(client, Server{Cluster: true, Version: Redis80}).Commands); now != slots {
		slots = fmt.Sprintf("%s before version 8 of the server, then %s", slots, now)
	}
	without := code(AskedOf(client, Server{Version: Redis70}).Commands)
	if client == GoRedis {
		without = code(AskedOf(client, Server{Cluster: true}).Commands) + " on a cluster"
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", name, code(OfClient(client).Commands), slots, without)
}

func row(name string, r Rights) string {
	return fmt.Sprintf("| %s | %s | %s | %s |\n", name, code(r.Commands), code(shown(r.Keys)), code(shown(r.Channels)))
}

// shown are templates without a tenant.
func shown(templates []string) []string {
	return replaceAll(templates, strings.NewReplacer("TENANT", ""))
}

func code(items []string) string {
	return "`" + strings.ReplaceAll(strings.Join(items, "` `"), "|", `\|`) + "`"
}

// TestTemplates compares the keys and channels with those that the protocol uses, for a name with a hash tag of its own, too.
func TestTemplates(t *testing.T) {
	t.Parallel()
	const tenant = "billing"
	client := protocol.TenantPrefix(tenant) + "c6cc-889e-88f6-8265bee545cf"
	owner := client + ":1"
	for _, name := range []string{"orders", "{orders}:42", "NAME", "a NAME of TENANT"} {
		want := []string{
			"~" + name, "~" + protocol.TokenKey(name), "~" + protocol.FairQueueKey(name), "~" + protocol.WaitlistKey(name), "~" + protocol.RequestsKey(name),
			"~" + protocol.YieldKey(name), "~" + protocol.ReservationKey(name), "~" + protocol.PermitsKey(name), "~" + strings.TrimSuffix(protocol.ReadHoldKey(name, "*", 1), "1") + "*",
			"~" + protocol.LatchZeroKey(name), "~" + strings.TrimSuffix(protocol.ClientKey(owner), "c6cc-889e") + "*",
			"&" + protocol.LockChannel(name), "&" + protocol.WaiterChannel(name, "*"), "&" + protocol.RWChannel(name), "&" + protocol.SemaphoreChannel(name),
			"&" + protocol.PermitsChannel(name), "&" + protocol.LatchChannel(name),
		}
		for _, cluster := range []bool{false, true} {
			var all Rights
			for _, k := range Kinds() {
				all = all.And(k.And(k.Waiting).And(Identity()).On(Server{Cluster: cluster}).For(name, tenant))
			}
			granted := "&" + strings.TrimSuffix(protocol.GrantChannel(client, name, cluster), "c6cc-889e-88f6-8265bee545cf") + "*"
			for _, pattern := range append(want, granted) {
				if !slices.Contains(all.Patterns(), pattern) {
					t.Errorf("%q, cluster %v: %q is missing among %q", name, cluster, pattern, all.Patterns())
				}
			}
		}
	}
}

// TestRules has the rules of a user on each version, on a single server and on a cluster.
func TestRules(t *testing.T) {
	t.Parallel()
	kind := Kind{Rights: of("EVAL PUBLISH", name, "redisson_lock__channel:{NAME}"), Waiting: of("PUBSUB|NUMSUB", "holdfast_requests:{NAME}", "holdfast_granted:TENANT*")}
	const (
		commands = " +del +hdel +hget +hset +pexpire +time +wait"
		keys     = " ~a ~holdfast_requests:{a} ~holdfast_client:*"
		channels = " &redisson_lock__channel:{a} &holdfast_granted:*"
		all      = "resetkeys resetchannels clearselectors -@all"
	)
	billing := protocol.TenantPrefix("billing")
	for what, c := range map[string]struct {
		with func(u *User)
		want string
	}{
		"as it is": {func(*User) {}, all + commands + " +eval +publish +pubsub|numsub +ping" + keys + channels},
		"no EVAL":  {func(u *User) { u.NoEval = true }, all + commands + " +publish +pubsub|numsub +ping" + keys + channels},
		"6.0":      {func(u *User) { u.Server.Version = Redis60 }, "resetkeys -@all" + commands + " +eval +publish +pubsub|numsub +ping" + keys},
		"6.2": {
			func(u *User) { u.Server.Version = Redis62 },
			"resetkeys resetchannels -@all" + commands + " +eval +publish +pubsub|numsub +ping" + keys + channels,
		},
		"cluster of 6.2": {
			func(u *User) { u.Server = Server{Redis62, true} },
			"resetkeys resetchannels -@all" + commands + " +eval +publish +pubsub|numsub +pubsub|shardnumsub +ping +command +cluster|slots" + keys + channels,
		},
		"a tenant": {
			func(u *User) { u.Tenant = "billing" },
			all + commands + " +eval +publish +pubsub|numsub +ping ~a ~holdfast_requests:{a} ~holdfast_client:" + billing + "* &redisson_lock__channel:{a} &holdfast_granted:" + billing + "*",
		},
		"a tenant on a cluster": {
			func(u *User) { u.Tenant, u.Server.Cluster = "billing", true },
			all + commands + " +eval +spublish +pubsub|shardnumsub +ping +command +cluster|slots ~a ~holdfast_requests:{a} ~holdfast_client:" + billing +
				"* &redisson_lock__channel:{a} &holdfast_waitlist:{a}:" + billing + "*",
		},
		"rueidis on 8": {
			func(u *User) { u.Clients, u.Server.Version = []string{Rueidis}, Redis80 },
			all + commands + " +eval +publish +pubsub|numsub +client|tracking +echo +ping +cluster|shards +cluster|slots" + keys + channels,
		},
		"looking only": {
			func(u *User) { u.Kinds, u.Names, u.Look = nil, nil, true },
			all + " +exists +getrange +hget +hlen +hmget +hscan +hstrlen +llen +lrange +pttl +pubsub|numsub +time +type +zcount +zrange +zrangebyscore " +
				"+dbsize +hkeys +pubsub|channels +scan +subscribe +unsubscribe +ping &redisson_* %R~*",
		},
	} {
		u := User{Names: []string{"a"}, Kinds: []Kind{kind}, Clients: []string{GoRedis}}
		c.with(&u)
		got, want := u.Rules(), strings.Fields(c.want)
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: %s\nwant %s", what, got, want)
		}
	}
}

// TestLookOnly gives no right to write, and on servers that cannot tell, no command that writes.
func TestLookOnly(t *testing.T) {
	t.Parallel()
	for _, version := range []Version{Recent, Redis60, Redis62, Redis70, Redis80} {
		for _, names := range [][]string{nil, {"a", Matching("b*")}} {
			for _, rule := range (User{Names: names, Look: true, Clients: Clients(), Server: Server{Version: version}}).Rules() {
				name := strings.ToUpper(strings.TrimPrefix(rule, "+"))
				writes := slices.Contains([]string{"DEL", "HDEL", "HSET", "SET", "PUBLISH", "EVAL", "EVALSHA", "PEXPIRE"}, name)
				if writes || rule[0] == '~' && version != Redis60 && version != Redis62 {
					t.Errorf("%s on %d", rule, version)
				}
			}
		}
	}
}

// TestQuoted has words as redis-cli reads them back.
func TestQuoted(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"~orders:*": "~orders:*", `~a\*b`: `~a\*b`, `&x"y`: `"&x\"y"`, `~it's\*`: `"~it's\\*"`, "~\x1b[2J": `"~\x1b[2J"`, "~ü": `"~\xc3\xbc"`, "~\u202ea": `"~\xe2\x80\xaea"`,
		"~" + Exactly("a b"): `"~a[^\x01-\x08\x0e-\x1f!-\x7f\x80-\xff]b"`,
	} {
		if got := Quoted(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
