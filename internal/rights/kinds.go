package rights

import (
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Kind is a kind of lock with some options: a row of docs/acl.md.
type Kind struct {
	protocol.Variant
	Rights
	// Waiting are the rights by which a waiter has an entry in the waitlist, and a release grants it the lock. Without them the kind
	// works, but waiters ask every few seconds.
	Waiting Rights
	// Expiry are the rights that Expire and Delete need besides; of objects that have these methods.
	Expiry Rights
}

// ID returns the name on the command line: "fair, fenced" is fair-fenced.
func (k Kind) ID() string { return id(k.Name) }

func id(name string) string { return strings.NewReplacer(", ", "-", " ", "-").Replace(name) }

// IDs returns the names of all kinds on the command line.
func IDs() (ids []string) {
	for _, v := range protocol.Variants() {
		ids = append(ids, id(v.Name))
	}
	return ids
}

// Kinds returns all kinds, in the order of docs/acl.md.
var Kinds = sync.OnceValue(func() (all []Kind) {
	for _, v := range protocol.Variants() {
		all = append(all, kindOf(v))
	}
	return all
})

// name stands for the lock's name in templates, and client for the one that a grant message is for.
const name, client = "NAME", "TENANT*"

// kindOf returns the rights that a kind needs: to the commands of its scripts, and of the library.
func kindOf(v protocol.Variant) Kind {
	commands := v.Commands()
	own := slices.DeleteFunc(commands.Own, func(command string) bool { return slices.Contains(v.Spared, command) })
	own = append(own, "EVAL", "EVALSHA", "PUBLISH")
	keys := append([]string{name}, templates(v.Keys...)...)
	if !v.Polling {
		own = append(own, "SUBSCRIBE", "UNSUBSCRIBE")
	}
	if v.Fenced {
		own, keys = append(own, commands.Token...), append(keys, protocol.TokenKey(name))
	}
	own = append(own, v.Needs...)
	slices.Sort(own)
	k := Kind{Variant: v, Rights: Rights{Commands: slices.Compact(own), Keys: keys, Channels: templates(v.Channels...)}}
	switch {
	case v.AlwaysListed: // it has a waitlist of its own
		k.Waiting = Rights{
			Commands: without(slices.Sorted(slices.Values(slices.Concat(commands.Waitlist, v.Spared))), k.Commands),
			Keys:     templates(protocol.RequestsKey), Channels: Line().Channels,
		}
	case v.Waitlist:
		k.Waiting = Line()
	}
	if v.Number {
		k.Expiry = expiring()
	}
	return k
}

// expiring returns the rights of Expire and Delete. Every kind has the others.
func expiring() Rights {
	return Rights{Commands: without(protocol.ObjectCommands(), []string{"EXISTS", "TIME"})}
}

// Line returns the rights that waiters for a plain or a read-write lock, or for permits, need to have entries in the waitlist: what
// only one of these kinds needs anyway is among them.
var Line = sync.OnceValue(func() Rights {
	var all, common []string
	for _, k := range protocol.Kinds {
		if !k.Waitlist || k.AlwaysListed {
			continue
		}
		commands := k.Commands()
		all = union(all, commands.Waitlist)
		if common == nil {
			common = commands.Own
		}
		common = slices.DeleteFunc(common, func(command string) bool { return !slices.Contains(commands.Own, command) })
	}
	slices.Sort(all)
	return Rights{
		Commands: without(all, common), Keys: templates(protocol.WaitlistKey, protocol.RequestsKey, protocol.YieldKey),
		Channels: []string{protocol.GrantChannel(client, name, false)},
	}
})

// Identity returns the rights to a client's own record, and to those of the clients that hold locks.
var Identity = sync.OnceValue(func() Rights {
	return Rights{Commands: protocol.ClientCommands(), Keys: []string{"holdfast_client:" + client}}
})

// Replicas are the rights that WithReplicaAck needs. By them rueidis and valkey-go also tell a primary from a replica, before Redis 7.0
// and without EVAL.
var Replicas = of("WAIT", "", "")

// templates returns the keys, or channels, of all locks.
func templates(of ...func(name string) string) (all []string) {
	for _, f := range of {
		all = append(all, f(name))
	}
	return all
}

// without returns a list without the items of another.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(item string) bool { return slices.Contains(other, item) })
}
