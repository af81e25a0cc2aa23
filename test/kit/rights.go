package kit

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Rights are what a user of a kind has to be allowed, and nothing less will do:
// TestACL takes each of them away. The table in docs/acl.md is made of them.
type Rights struct {
	Commands []string
	Keys     []string // patterns; NAME is the lock's name, and so it is in the channels
	Channels []string
}

// And returns both.
func (r Rights) And(more Rights) Rights {
	return Rights{
		Commands: union(r.Commands, more.Commands),
		Keys:     union(r.Keys, more.Keys),
		Channels: union(r.Channels, more.Channels),
	}
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, item := range b {
		if !slices.Contains(all, item) {
			all = append(all, item)
		}
	}
	return all
}

// What every script needs, and what listening does.
var (
	ScriptRights = Rights{Commands: []string{"evalsha", "eval", "time"}}
	listenRights = Rights{Commands: []string{"subscribe", "unsubscribe"}}
)

var (
	pollingRights = ScriptRights.And(Rights{
		Commands: []string{"exists", "hget", "hset", "hdel", "hkeys", "hgetall", "hexists", "pttl", "pexpire", "del", "publish"},
		Keys:     []string{"NAME"},
		Channels: []string{"redisson_lock__channel:{NAME}"},
	})
	PlainRights = pollingRights.And(listenRights)
	// LineRights are what standing in line takes besides: see TestACLLine.
	LineRights = Rights{
		Commands: []string{"zadd", "zrank", "zcard", "zpopmin", "zrange", "zrem", "pubsub|numsub", "get", "set"},
		Keys:     []string{"holdfast_line:{NAME}", "holdfast_asks:{NAME}", "holdfast_turn:{NAME}"},
		Channels: []string{"holdfast_granted:*"},
	}
	tokenRights = Rights{
		Commands: []string{"get", "set"},
		Keys:     []string{"redisson_lock_token:{NAME}"},
	}
	readerRights = ScriptRights.And(listenRights).And(Rights{
		Commands: []string{
			"exists", "hget", "hset", "hkeys", "hgetall", "hexists", "hdel", "hlen", "type", "get", "set",
			"pttl", "pexpire", "del", "publish",
		},
		Keys:     []string{"NAME", "{NAME}:*", "holdfast_next:{NAME}"},
		Channels: []string{"redisson_rwlock:{NAME}"},
	})
	writerRights = ScriptRights.And(listenRights).And(Rights{
		Commands: []string{
			"exists", "hget", "hset", "hkeys", "hgetall", "hexists", "hdel", "get", "pttl", "pexpire", "del", "publish",
		},
		Keys:     []string{"NAME", "{NAME}:*", "holdfast_next:{NAME}"},
		Channels: []string{"redisson_rwlock:{NAME}"},
	})
	writersFirstRights = Rights{Commands: []string{"set"}}
	fairRights         = ScriptRights.And(listenRights).And(Rights{
		Commands: []string{
			"exists", "hget", "hset", "hdel", "hkeys", "hgetall", "hexists", "pttl", "pexpire", "del", "publish", "persist",
			"lindex", "llen", "lpos", "lrange", "lrem", "ltrim", "rpush", "unlink",
			"zadd", "zcard", "zrangebyscore", "zrem", "zscore",
		},
		Keys: []string{
			"NAME", "redisson_lock_queue:{NAME}", "redisson_lock_timeout:{NAME}", "holdfast_lock_waiting:{NAME}",
		},
		Channels: []string{"redisson_lock__channel:{NAME}:*"},
	})
)

// ClientRights are what a client needs beyond the kind's rights.
var ClientRights = map[string]Rights{
	"go-redis": {Commands: []string{"ping"}}, // see TestACLPing
	"rueidis":  {},
}

// Rules are the rights as ACL SETUSER takes them.
func (r Rights) Rules(name string) (rules []string) {
	for _, command := range r.Commands {
		rules = append(rules, "+"+command)
	}
	for _, key := range r.Keys {
		rules = append(rules, "~"+strings.ReplaceAll(key, "NAME", name))
	}
	for _, channel := range r.Channels {
		rules = append(rules, "&"+strings.ReplaceAll(channel, "NAME", name))
	}
	return rules
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
