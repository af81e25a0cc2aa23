package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
)

// every is how many scripts there are.
var every = len(protocol.Every())

// loadScripts loads every script, as an administrator does.
func loadScripts(t *testing.T, nodes ...*redistest.Server) {
	t.Helper()
	for _, node := range nodes {
		for _, s := range protocol.Every() {
			node.Cli(t, "SCRIPT", "LOAD", s.Source())
		}
	}
}

// withoutEval are the rules but EVAL's.
func withoutEval(rules []string) []string {
	return slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return rule == "+eval" })
}

// TestWithoutEval has a user with the rights of all kinds but EVAL: all of them work if the scripts are loaded, and none is tried if
// they are not. Then it is said once what to do.
func TestWithoutEval(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var rules []string
	for _, k := range rights.Kinds() {
		rules = append(rules, withLine(k, "orders:*", rights.Server{})...)
	}
	allow(t, server, "bob", withoutEval(rules))
	options := connect.Options{URL: "redis://bob:pw@" + server.Addr()}
	orders := func(c *Config) { c.Prefix = "orders" }
	s := look(t, options, orders)
	s.finds("scripts", Failure, fmt.Sprintf("this user may not use EVAL, and the %d scripts are not loaded", every))
	if found := s.of("scripts"); len(found) != 1 || found[0].Do != "As an administrator, run holdfast scripts load." {
		t.Errorf("%+v", found)
	}
	if found := s.of("locks"); len(found) != 0 {
		t.Errorf("locked without scripts: %+v", found)
	}
	loadScripts(t, server)
	s = look(t, options, orders)
	s.finds("scripts", Pass, "this user may not use EVAL, and all scripts are loaded")
	s.finds("rights", Pass, "all kinds")
	s.finds("locks", Pass, "all kinds")
	s.nothingWorse(Unknown)
	server.Cli(t, "SCRIPT", "FLUSH")
	server.Cli(t, "SCRIPT", "LOAD", protocol.MutexScripts.Acquire.Source())
	look(t, options, orders).finds("scripts", Failure, fmt.Sprintf("%d of %d scripts are not loaded", every-1, every))
	leavesNothing(t, server)
}

// TestOwnLua warns, once, of users who share a server and may run Lua of their own, in each way that there is.
func TestOwnLua(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	loadScripts(t, server)
	mutex := withoutEval(withLine(rights.Kinds()[0], "orders:*", rights.Server{}))
	options := connect.Options{URL: "redis://bob:pw@" + server.Addr()}
	orders := func(c *Config) { c.Prefix, c.Kinds = "orders", []string{"mutex", "polling"} }
	ways := []string{"+eval", "+script|load", "+script|flush"}
	if redistest.AtLeast(t, 7, 0) {
		ways = append(ways, "+eval_ro", "+function|load")
	}
	for _, way := range ways {
		allow(t, server, "bob", append(slices.Clone(mutex), way))
		s := look(t, options, orders)
		s.finds("scripts", Warning, "this user may use certain keys only, so others share the server, and has "+way+":")
		if found := s.of("scripts"); len(found) != 2 {
			t.Errorf("%s: %+v", way, found)
		}
		s.finds("locks", Pass, "mutex, polling")
	}
	allow(t, server, "bob", append(slices.Clone(mutex), "+@scripting"))
	look(t, options, orders).finds("scripts", Warning, "has +eval")
	// A user of all keys has the server for itself, or is its administrator.
	allow(t, server, "bob", append(slices.Clone(mutex), "+@all", "~*", "&*"))
	look(t, options, orders).nothingWorse(Warning, "persistence", "password")
	if got := server.Cli(t, "SCRIPT", "EXISTS", protocol.MutexScripts.Acquire.SHA()); got != "1" {
		t.Error("the scripts are gone")
	}
}

// TestOthersWithEval has an administrator look at the users.
func TestOthersWithEval(t *testing.T) {
	t.Parallel()
	if !redistest.AtLeast(t, 7, 0) {
		return // it has no ACL DRYRUN
	}
	server := redistest.Start(t)
	options := connect.Options{URL: "redis://" + server.Addr()}
	mutex := rulesOf(rights.Kinds()[0], "orders:*")
	allow(t, server, "tenant", withoutEval(mutex))
	allow(t, server, "deploy", []string{"+@all", "~*", "&*"})
	allow(t, server, "gone", append(slices.Clone(mutex), "off"))
	if found := look(t, options).of("scripts"); len(found) != 1 || found[0].Severity != Pass {
		t.Errorf("%+v", found)
	}
	for _, name := range []string{"f", "e", "d", "c", "b", "a\x1b[31m"} {
		allow(t, server, name, mutex)
	}
	look(t, options).finds("scripts", Warning, `these users may use certain keys only, and have +eval: "a\x1b[31m", "b", "c", "d", "e", and 1 more:`)
}

// TestWithoutEvalOnReplicas warns of a replica without the scripts: it may become the primary.
func TestWithoutEvalOnReplicas(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1, 1)
	primary, replica := sentinel.Primary(t), sentinel.Replicas(t)[0]
	rules := withoutEval(withLine(rights.Kinds()[0], "orders:*", rights.Server{}))
	allow(t, primary, "bob", rules)
	allow(t, replica, "bob", rules)
	loadScripts(t, primary)
	options := connect.Options{URL: "redis+sentinel://bob:pw@" + strings.Join(sentinel.Addrs(), ",") + "/" + sentinel.MasterName()}
	orders := func(c *Config) { c.Prefix, c.Kinds = "orders", []string{"mutex"} }
	s := look(t, options, orders)
	s.finds("scripts", Warning, fmt.Sprintf("after a failover to this replica locks do not work: this user may not use EVAL, and the %d scripts are not loaded %s", every, replica.Addr()))
	s.finds("locks", Pass, "mutex")
	loadScripts(t, replica)
	look(t, options, orders).finds("scripts", Pass, "all scripts are loaded")
}
