package rights

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
	"github.com/holdfast-go/holdfast/test/kit"
)

// wantRefused fails unless the user may not even look at a lock of that name.
func wantRefused(t *testing.T, k *kit.Kind, c *holdfast.Client, name string) {
	t.Helper()
	if _, err := k.Lock(c, name).TryLock(background); err == nil || !strings.Contains(err.Error(), "lacks a right") {
		t.Errorf("%s %q: %v", k.Name, name, err)
	}
}

// TestUser does everything that there is to do with a lock of each kind, as a user that the printed line has made, through each
// client. Redis refuses nothing meanwhile.
func TestUser(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lives(t, []*redistest.Server{s}, adminOf(t, s), rights.User{})
}

// TestUserWithoutEval does the same without EVAL, once the server has the scripts.
func TestUserWithoutEval(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := adminOf(t, s)
	for _, script := range protocol.Every() {
		s.Cli(t, "SCRIPT", "LOAD", script.Source())
	}
	lives(t, []*redistest.Server{s}, admin, rights.User{NoEval: true})
}

// TestUserMeetsAReplica has a user without EVAL learn that a server is a replica: rueidisdriver asks it so.
func TestUserMeetsAReplica(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	name := kit.Fresh()
	kit.Pasted(t, []*redistest.Server{s}, rights.User{Names: []string{name}, Kinds: []rights.Kind{kit.MutexKind.Kind}, NoEval: true}, name, rights.Rueidis)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: name, Password: "pw", Protocol: 2})
	defer rdb.Close()
	kit.OK(t, rdb.Do(background, "WAIT", 0, 1).Err())
	s.Cli(t, "REPLICAOF", "127.0.0.1", "1")
	if err := rdb.Do(background, "WAIT", 0, 1).Err(); err == nil || !strings.Contains(err.Error(), "WAIT cannot be used with replica") {
		t.Errorf("%v", err)
	}
}

// TestUserOnCluster does what TestUser does, on a cluster.
func TestUserOnCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	admin := kit.GoRedis("admin", redis.UniversalOptions{Addrs: s.Addrs()}, kit.OnCluster(s))
	admin.Sharded = redistest.AtLeast(t, 7, 0)
	lives(t, s.Nodes, admin, rights.User{Server: rights.Server{Cluster: true}})
}

func lives(t *testing.T, nodes []*redistest.Server, admin *kit.Platform, u rights.User) {
	t.Helper()
	a := admin.Client(t)
	t.Run("all", func(t *testing.T) {
		kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
			for _, client := range []string{rights.GoRedis, rights.Rueidis} {
				t.Run(client, func(t *testing.T) {
					t.Parallel()
					name := kit.Fresh()
					u := u
					u.Names, u.Kinds = []string{rights.Exactly(name)}, []rights.Kind{k.Kind}
					p := kit.Pasted(t, nodes, u, name, client)
					kit.OK(t, live(&life{t: t, k: k, admin: admin, a: a, name: name, grants: true}, p, 15*time.Second))
				})
			}
		})
	})
	asks := []string{"client", "client|setinfo"} // who they are, and go-redis asks for notifications
	if u.NoEval {
		asks = append(asks, "eval") // whether a server is a primary: rueidis in doubt, before it asks by WAIT
	}
	for _, node := range nodes {
		lines := kit.Lines(node.Cli(t, "ACL", "LOG", "1000"))
		for i, line := range lines {
			if line == "object" && !slices.Contains(asks, lines[i+1]) {
				t.Errorf("refused: %s", lines[i-1:min(i+8, len(lines))])
			}
		}
	}
}

// ofNames are patterns of names that are special to Redis, to redis-cli or for their hash tags; names that they stand for; and some
// that they could be mistaken for.
var ofNames = []struct {
	pattern  string
	may, not []string
}{
	{rights.Exactly("a*b"), []string{"a*b"}, []string{"axb", "ab"}},
	{rights.Exactly("a?b"), []string{"a?b"}, []string{"axb"}},
	{rights.Exactly("[ab]"), []string{"[ab]"}, []string{"a", "ab"}},
	{rights.Exactly("[^ab]"), []string{"[^ab]"}, []string{"c"}},
	{rights.Exactly(`a\b*`), []string{`a\b*`}, []string{"ab*", `a\bc`}},
	{rights.Exactly(`a\`), []string{`a\`}, []string{"a", `a\x`}},
	{rights.Exactly("two words\t"), []string{"two words\t"}, []string{"twoxwords\t", "two\xffwords\t", "two\x01words\t", "two~words\t", "twowords\t"}},
	{rights.Exactly(`say "it's"`), []string{`say "it's"`}, []string{"say it's"}},
	{rights.Exactly("l\r\nFLUSHALL"), []string{"l\r\nFLUSHALL"}, []string{"l"}},
	{rights.Exactly("\x00\xff\x1b[2J\u202e"), []string{"\x00\xff\x1b[2J\u202e"}, []string{"\xff\x1b[2J\u202e"}},
	{rights.Exactly("grün {tag}:1"), []string{"grün {tag}:1"}, []string{"grün {tag}:2", "{tag}:1"}},
	{rights.Exactly("rw"), []string{"rw"}, []string{"{rw}:x", "rw:x"}}, // of read holds only the keys of such
	{rights.Exactly("-x"), []string{"-x"}, []string{"x"}},
	{rights.Matching("orders:*"), []string{"orders:1", "orders:", "orders:a b"}, []string{"order", "xorders:1"}},
	{rights.Matching("o*[1]?"), []string{"o[1]?", "o-2-[1]?"}, []string{"o1x", "o[1]x"}},
	{rights.Matching("{tag}:*"), []string{"{tag}:7", "{tag}:7:8"}, []string{"{tag}", "{other}:7"}},
	{rights.Matching("{of *}:x"), []string{"{of me}:x"}, []string{"{ofme}:x", "{of me}:y"}},
}

// TestUserOfNames waits for locks of such names, and is refused others.
func TestUserOfNames(t *testing.T) {
	t.Parallel()
	var kinds []rights.Kind
	for _, k := range kit.Kinds {
		kinds = append(kinds, k.Kind)
	}
	for _, client := range []string{rights.GoRedis, rights.Rueidis} {
		s := redistest.Start(t)
		admin := adminOf(t, s)
		for _, c := range ofNames {
			t.Run(client+"/"+strconv.Quote(c.pattern), func(t *testing.T) {
				t.Parallel()
				p := kit.Pasted(t, []*redistest.Server{s}, rights.User{Names: []string{c.pattern}, Kinds: kinds}, kit.Fresh(), client)
				a, b := admin.Client(t), p.Client(t)
				for _, k := range kit.Kinds {
					for _, name := range c.may {
						h := kit.Must(t)(k.Against(a, name).Lock(background))
						got := turn(k.Lock(b, name))
						admin.AwaitWaiter(t, k, name)
						kit.Unlock(t, h)
						kit.OK(t, <-got)
					}
					for _, name := range c.not {
						wantRefused(t, k, b, name)
					}
				}
			})
		}
	}
}

// TestUserOfTenant hears no grants of others, and neither reads nor writes who their clients are.
func TestUserOfTenant(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	name := kit.Fresh()
	u := rights.User{Names: []string{name}, Kinds: []rights.Kind{kit.MutexKind.Kind}, Tenant: "billing", NoEval: true}
	own, other := protocol.TenantPrefix("billing"), protocol.TenantPrefix("sales")
	user := kit.Fresh()
	u.Server.Version = kit.Version(t)
	kit.Paste(t, s, u.Command(user), user)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: user, Password: "pw", Protocol: 2})
	defer rdb.Close()
	refused := func(args ...any) bool {
		err := rdb.Do(background, args...).Err()
		if err != nil && !errors.Is(err, redis.Nil) && !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("%v: %v", args, err)
		}
		return err != nil && !errors.Is(err, redis.Nil)
	}
	const rest = "c6cc-889e-88f6-8265bee545cf"
	for begins, may := range map[string]bool{own: true, other: false, "": false} {
		for _, args := range [][]any{
			{"HGET", "holdfast_client:" + begins + "c6cc-889e", "program"},
			{"HSET", "holdfast_client:" + begins + "c6cc-889e", "program", "x"},
			{"PUBLISH", "holdfast_granted:" + begins + rest, "1"},
			{"SUBSCRIBE", "holdfast_granted:" + begins + rest},
		} {
			if args[0] == "SUBSCRIBE" && may || args[0] != "HGET" && args[0] != "HSET" && !redistest.AtLeast(t, 6, 2) {
				continue
			}
			if refused(args...) == may {
				t.Errorf("%v: refused: %v", args, !may)
			}
		}
	}
	if !refused("EVAL", "return 1", 0) {
		t.Error("it may call EVAL")
	}
}
