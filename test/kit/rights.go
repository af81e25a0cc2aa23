package kit

import (
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
)

// RightsOf returns what a user of a kind needs, by the name in docs/acl.md, and nothing less will do: TestACL and
// TestSemaphoreRights take each of them away.
func RightsOf(kind string) rights.Rights {
	all := rights.Kinds()
	return all[slices.IndexFunc(all, func(k rights.Kind) bool { return k.Name == kind })].Rights
}

// ClientRights are what a client needs beyond the kind's rights. Here rueidis is used without its cache.
var ClientRights = map[string]rights.Rights{
	"go-redis": rights.OfClient(rights.GoRedis), // see TestACLPing
	"rueidis":  {},
}

// Known returns the rules that the server knows. Rights on channels came with
// Redis 6.2; before it, everybody has them.
func Known(t *testing.T, rules []string) []string {
	t.Helper()
	if redistest.AtLeast(t, 6, 2) {
		return rules
	}
	return slices.DeleteFunc(slices.Clone(rules), func(rule string) bool {
		return rule[0] == '&' || rule == "resetchannels"
	})
}

// Allow makes a user, or changes what it may do: this, and nothing else.
func Allow(t *testing.T, s *redistest.Server, user string, rules []string) {
	t.Helper()
	s.Cli(t, append([]string{"ACL", "SETUSER", user, "reset", "on", ">pw"}, Known(t, rules)...)...)
}

// Limited is the server as a user with these rights reaches it.
func Limited(t *testing.T, s *redistest.Server, client, user string, rules []string) *Platform {
	t.Helper()
	Allow(t, s, user, rules)
	return LimitedTo([]string{s.Addr()}, client, user)
}

// LimitedTo is a server, or a cluster, as a user reaches it.
func LimitedTo(addrs []string, client, user string) *Platform {
	if client == "go-redis" {
		return GoRedis("limited", redis.UniversalOptions{Addrs: addrs, Username: user, Password: "pw"}, nil)
	}
	return RueidisAt("limited", rueidis.ClientOption{
		InitAddress: addrs, Username: user, Password: "pw",
		DisableCache: true, // or rueidis needs CLIENT TRACKING, for itself
	}, nil)
}

// Version is the server's, as far as rights depend on it.
func Version(t *testing.T) rights.Version {
	t.Helper()
	switch {
	case redistest.AtLeast(t, 8, 0):
		return rights.Redis80
	case redistest.AtLeast(t, 7, 0):
		return rights.Redis70
	case redistest.AtLeast(t, 6, 2):
		return rights.Redis62
	}
	return rights.Redis60
}

// Paste makes a user of that name, with the password pw, by a line for redis-cli.
func Paste(t *testing.T, s *redistest.Server, line, user string) {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Addr())
	OK(t, err)
	cmd := exec.Command("redis-cli", "-h", host, "-p", port)
	cmd.Stdin = strings.NewReader(line + "\nACL SETUSER " + user + " >pw\n")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "OK\nOK\n" {
		t.Fatalf("redis-cli: %v, %s", err, out)
	}
}

// Pasted makes a user of a name on all nodes by the line that holdfast acl prints, and returns the server as that user reaches it:
// with the defaults of its client.
func Pasted(t *testing.T, nodes []*redistest.Server, u rights.User, name, client string) *Platform {
	t.Helper()
	u.Clients = []string{client}
	u.Server.Version = Version(t)
	var addrs []string
	for _, node := range nodes {
		Paste(t, node, u.Command(name), name)
		addrs = append(addrs, node.Addr())
	}
	if client == rights.GoRedis {
		return GoRedis(name, redis.UniversalOptions{Addrs: addrs, Username: name, Password: "pw", IsClusterMode: u.Server.Cluster}, nil)
	}
	return RueidisAt(name, rueidis.ClientOption{InitAddress: addrs, Username: name, Password: "pw"}, nil)
}

// NotPublishing are rules of a user who may do all but publish: it lacks the
// command, or the channel.
func NotPublishing(t *testing.T, s *redistest.Server) map[string][]string {
	t.Helper()
	without := map[string][]string{"the command": {"+@all", "-publish", "-spublish", "~*", "&*"}, "the channel": {"+@all", "~*"}}
	if version60(t, s) { // it knows no rights to channels, and no sharded ones
		without = map[string][]string{"the command": {"+@all", "-publish", "~*"}}
	}
	return without
}

// version60 reports whether the server is a Redis 6.0.
func version60(t *testing.T, s *redistest.Server) bool {
	t.Helper()
	return strings.Contains(s.Cli(t, "INFO", "server"), "redis_version:6.0")
}
