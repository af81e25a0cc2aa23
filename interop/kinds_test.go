package interop

import (
	"strings"
)

// kind is a kind of lock by the name that both peers know it under, as the suites
// need to know it.
type kind struct {
	name  string
	label string // in the tests' names, if not the name
	rival string // the kind that it excludes; empty: itself
	from4 bool   // whether Redisson has it since its version 4

	nests bool // an owner may hold it more than once
	whole bool // it is one lock with one state, which can be asked for and forced
	// channel is where a waiter listens, or the beginning of that; nil: it asks
	// again and again.
	channel func(name string) string
	// spell makes the name of a lock of the kind of what every name is made of.
	spell func(name string) string
	// more are tests of this kind alone.
	more map[string]func(d *duel)
	// suite is what it is tested with if it is not a lock.
	suite func(d *duel)
}

func (k *kind) rivals() string {
	if k.rival == "" {
		return k.name
	}
	return k.rival
}

func (k *kind) title() string {
	if k.label == "" {
		return k.name
	}
	return k.label
}

func itself(name string) string { return name }

func on(prefix string) func(name string) string {
	return func(name string) string { return prefix + "{" + name + "}" }
}

const (
	lockChannel = "redisson_lock__channel:"
	rwChannel   = "redisson_rwlock:"
)

// parts are the names of the locks that a multi-lock is made of.
func parts(name string) string { return name + ":1+" + name + ":2+" + name + ":3" }

var redKind = &kind{name: "red", nests: true, spell: itself}

var kinds = []*kind{
	{name: "mutex", nests: true, whole: true, channel: on(lockChannel), spell: itself},
	{name: "nonreentrant", from4: true, whole: true, channel: on(lockChannel), spell: itself},
	{name: "spin", nests: true, whole: true, spell: itself},
	{
		name: "fenced", nests: true, whole: true, channel: on(lockChannel), spell: itself,
		more: map[string]func(d *duel){"tokens": tokens},
	},
	{
		name: "fair", nests: true, whole: true, channel: on(lockChannel), spell: itself,
		more: map[string]func(d *duel){"order": fairOrder, "giving up": fairGivingUp, "outlasts": fairOutlasts},
	},
	{name: "nonreentrantfair", from4: true, whole: true, channel: on(lockChannel), spell: itself},
	{
		name: "read", rival: "write", nests: true, whole: true, channel: on(rwChannel), spell: itself,
		more: map[string]func(d *duel){"together": readTogether, "several": readSeveral},
	},
	{
		name: "write", nests: true, whole: true, channel: on(rwChannel), spell: itself,
		more: map[string]func(d *duel){"downgrade": downgrade},
	},
	{name: "write", label: "write against read", rival: "read", nests: true, whole: true, channel: on(rwChannel), spell: itself},
	{
		name: "multi", nests: true, spell: parts,
		channel: func(name string) string {
			first, _, _ := strings.Cut(name, "+")
			return on(lockChannel)(first)
		},
	},
	{name: "semaphore", spell: itself, channel: on("redisson_sc:"), suite: semaphore},
	{name: "permits", spell: itself, channel: on("redisson_sc:"), suite: permits},
	{name: "latch", spell: itself, channel: on("redisson_countdownlatch__channel__"), suite: latch},
}
