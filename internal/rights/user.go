package rights

import (
	"fmt"
	"slices"
	"strings"
)

// The commands of the tool that look at locks. All of them need those of Show.
var (
	Show = of("EXISTS GETRANGE HGET HLEN HMGET HSCAN HSTRLEN LLEN LRANGE PTTL PUBSUB|NUMSUB TIME TYPE ZCOUNT ZRANGE ZRANGEBYSCORE", "", "")
	List = of("DBSIZE HKEYS PUBSUB|CHANNELS SCAN", "", "") // ls, watch and dashboard
	Wait = of("SUBSCRIBE UNSUBSCRIBE", "", "")
)

// braced is a name that ls looks at, too: of a key beside a lock it cannot tell whether the lock's name has these braces.
var braced = []string{"{NAME}"}

// User is a Redis user: what [User.Rules] lets it do.
type User struct {
	// Names are patterns, in the syntax of [Exactly] and [Matching].
	Names []string
	// Kinds are the kinds of lock that it may use under these names.
	Kinds []Kind
	// Look lets it look at locks of all kinds under these names, without changing them; at all locks if there are no names.
	Look bool
	// Tenant is that of its clients; empty: none.
	Tenant string
	// Clients are those of [Clients] that it uses.
	Clients []string
	Server  Server
	// NoEval leaves EVAL out: it may use the scripts that are loaded, and bring no others.
	NoEval bool
}

// Rules returns the rules of ACL SETUSER that give the user these rights and take every other one away. Its passwords stay.
func (u User) Rules() []string {
	var all Rights
	for _, k := range u.Kinds {
		rights := k.And(k.Waiting).And(k.Expiry).And(Identity()).And(Replicas).On(u.Server)
		for _, name := range u.Names {
			all = all.And(rights.For(name, u.Tenant))
		}
	}
	seen := u.seen()
	all.Commands, all.Channels = union(all.Commands, seen.Commands), union(all.Channels, seen.Channels)
	for _, client := range u.Clients {
		all = all.And(OfClient(client)).And(Topology(client, u.Server)).And(AskedOf(client, u.Server))
	}
	slices.Sort(all.Commands)
	if u.NoEval {
		all.Commands = slices.DeleteFunc(all.Commands, func(command string) bool { return command == "EVAL" })
	}
	rules := slices.Concat(u.nothing(), all.rules())
	reads := "%R~"
	if u.Server.before7() {
		reads = "~"
	}
	for _, key := range seen.Keys {
		if !slices.Contains(all.Keys, key) {
			rules = append(rules, reads+key)
		}
	}
	return rules
}

// nothing are the rules that take every right away.
func (u User) nothing() []string {
	rules := []string{"resetkeys", "resetchannels", "clearselectors", "-@all"}
	return slices.DeleteFunc(rules, func(rule string) bool {
		return rule == "clearselectors" && u.Server.before7() || rule == "resetchannels" && u.Server.Version == Redis60
	})
}

// seen are the rights to look at locks, whose keys are only read.
func (u User) seen() Rights {
	if !u.Look {
		return Rights{}
	}
	look := Show.And(List).And(Wait)
	if len(u.Names) == 0 {
		look.Keys, look.Channels = []string{"*"}, []string{"redisson_*"}
		return look.On(u.Server)
	}
	for _, k := range Kinds() { // what a name is shows only there
		look = look.And(Rights{Keys: k.Keys, Channels: k.Channels})
	}
	look = look.And(Rights{Keys: slices.Concat(Line().Keys, Identity().Keys, braced)}).On(u.Server)
	var all Rights
	for _, name := range u.Names {
		all = all.And(look.For(name, u.Tenant))
	}
	return all
}

// Command returns the command that makes the user, or changes its rights, quoted for redis-cli.
func (u User) Command(name string) string {
	words := slices.Concat([]string{"ACL", "SETUSER", name, "on"}, u.Rules())
	for i, word := range words {
		words[i] = Quoted(word)
	}
	return strings.Join(words, " ")
}

// Quoted returns a word as redis-cli reads it: in quotes if it has a quote, or a byte that is no visible character of ASCII.
func Quoted(word string) string {
	if strings.IndexFunc(word, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\'' }) < 0 {
		return word
	}
	text := []byte{'"'}
	for _, b := range []byte(word) {
		switch {
		case b == '"', b == '\\':
			text = append(text, '\\', b)
		case b <= ' ' || b >= 0x7f:
			text = fmt.Appendf(text, `\x%02x`, b)
		default:
			text = append(text, b)
		}
	}
	return string(append(text, '"'))
}
