package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// This file looks at who may run Lua of their own on a server, and whether it has the scripts for those who may not.

// ownLua are the ways to run Lua of one's own, or to take the loaded scripts from others, as they change nothing: the server looks at
// the rights first.
var ownLua = map[string][]any{
	"EVAL":          {"EVAL", keyScript, 0},
	"EVAL_RO":       {"EVAL_RO", keyScript, 0},
	"SCRIPT|LOAD":   {"SCRIPT", "LOAD", "("},
	"SCRIPT|FLUSH":  {"SCRIPT", "FLUSH", "NEVER"},
	"FUNCTION|LOAD": {"FUNCTION", "LOAD", "("},
}

// lua is what the user may do with Lua on a node.
type lua struct {
	own     []string // of ownLua
	lacks   []string // scripts that the node does not have, by kind and operation
	limited bool     // to certain keys
	err     error    // why nothing is known
}

// evals reports whether the user may use EVAL.
func (l *lua) evals() bool { return slices.Contains(l.own, "EVAL") }

// runs reports whether the scripts can be run: the user loads them, or they are loaded.
func (l *lua) runs() bool { return l.evals() || len(l.lacks) == 0 }

// cannot reports whether a command was refused because the user may not use it, or the server does not know it.
func cannot(err error) bool { return lacking(err) == aCommand || unknownCommand(err) }

// tryLua finds out what the user may do with Lua, once.
func (n *node) tryLua(ctx context.Context) *lua {
	if n.lua != nil {
		return n.lua
	}
	n.lua = &lua{}
	pipe := n.client.Pipeline()
	own, scripts := map[string]*redis.Cmd{}, map[string]*redis.Cmd{}
	for what, command := range ownLua {
		own[what] = pipe.Do(ctx, command...)
	}
	for name, s := range protocol.Every() {
		// It is too late for this call, so the script does nothing.
		scripts[name] = pipe.Do(ctx, "EVALSHA", s.SHA(), 0, 1, "", "PUBLISH")
	}
	elsewhere := pipe.Do(ctx, "EVALSHA", anySHA, 1, somewhere())
	_, _ = pipe.Exec(ctx) // each reply has its error
	var answered redis.Error
	if err := elsewhere.Err(); err != nil && !errors.As(err, &answered) {
		n.lua.err = err
		return n.lua
	}
	n.lua.limited = lacking(elsewhere.Err()) == aKey
	for _, what := range slices.Sorted(maps.Keys(own)) {
		if !cannot(own[what].Err()) {
			n.lua.own = append(n.lua.own, what)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		if redis.HasErrorPrefix(scripts[name].Err(), "NOSCRIPT") {
			n.lua.lacks = append(n.lua.lacks, name)
		}
	}
	return n.lua
}

// somewhere is a key that no program has.
func somewhere() string { return "holdfast_doctor_elsewhere:" + strings.ToLower(rand.Text()[:12]) }

const (
	loadDo   = "As an administrator, run holdfast scripts load."
	ownDo    = "Have an administrator run holdfast scripts load, and take the right away: -@scripting +evalsha."
	ownMeans = "that is enough to stop the programs of others"
)

// scripts is the check of all nodes: a replica may become the primary.
func scripts(ctx context.Context, e *exam) (found findings) {
	for _, n := range e.reached() {
		found = append(found, n.judgeLua(ctx, !n.replica).at(n.addr)...)
	}
	return found
}

// judgeLua says whether the library's scripts can be run on a node, and on a primary who may run others.
func (n *node) judgeLua(ctx context.Context, primary bool) (found findings) {
	l := n.tryLua(ctx)
	switch {
	case l.err != nil:
		return fail("Try again; the network may be bad.", "the scripts could not be tried: %v", connect.Explain(l.err))
	case l.evals():
		found = pass("this user may use EVAL, and so loads the scripts by itself")
	case len(l.lacks) == 0:
		found = pass("this user may not use EVAL, and all scripts are loaded")
	case primary:
		found = fail(loadDo, "this user may not use EVAL, and %s not loaded", count(l.lacks))
	default:
		found = warn(loadDo, "after a failover to this replica locks do not work: this user may not use EVAL, and %s not loaded", count(l.lacks))
	}
	if !primary {
		return found
	}
	if l.limited && len(l.own) > 0 {
		found = append(found, warn(ownDo, "this user may use certain keys only, so others share the server, and has +%s: "+ownMeans,
			strings.ToLower(strings.Join(l.own, " +")))...)
	}
	if others := n.othersWithEval(ctx); len(others) > 0 {
		found = append(found, warn(ownDo, "these users may use certain keys only, and have +eval: %s: "+ownMeans, named(others))...)
	}
	return found
}

// count is how many scripts are not loaded, for a sentence.
func count(lacks []string) string {
	switch every := len(protocol.Every()); {
	case len(lacks) == every:
		return fmt.Sprintf("the %d scripts are", every)
	case len(lacks) == 1:
		return fmt.Sprintf("1 of %d scripts is", every)
	default:
		return fmt.Sprintf("%d of %d scripts are", len(lacks), every)
	}
}

// mostUsers is the largest number of users that are looked at, and shownUsers of those that are named.
const mostUsers, shownUsers = 1000, 5

// othersWithEval returns other users who may use EVAL and not all keys. It returns none if the user may not ask, or the server cannot say.
func (n *node) othersWithEval(ctx context.Context) (others []string) {
	self, _ := n.client.Do(ctx, "ACL", "WHOAMI").Text()
	list, _ := n.client.Do(ctx, "ACL", "LIST").StringSlice()
	pipe := n.client.Pipeline()
	type user struct {
		name       string
		eval, keys *redis.Cmd
	}
	var users []user
	for _, rule := range list[:min(len(list), mostUsers)] {
		words := strings.Fields(rule) // user NAME on RULE...
		if len(words) > 2 && words[1] != self && words[2] == "on" {
			users = append(users, user{
				words[1], pipe.Do(ctx, "ACL", "DRYRUN", words[1], "EVAL", keyScript, 0), pipe.Do(ctx, "ACL", "DRYRUN", words[1], "EVAL", keyScript, 1, somewhere()),
			})
		}
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	for _, u := range users {
		eval, refused := u.eval.Text()
		keys, failed := u.keys.Text()
		if refused == nil && failed == nil && eval == "OK" && keys != "OK" {
			others = append(others, u.name)
		}
	}
	slices.Sort(others)
	return others
}

// named are the first names of a list.
func named(users []string) string {
	var names []string
	for _, name := range users[:min(len(users), shownUsers)] {
		names = append(names, fmt.Sprintf("%q", name))
	}
	if more := len(users) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
