package neighbours

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Two tenants have rights of their own. The locks of each work in full, and neither may publish a grant to the other, nor write or
// read who its clients are.
func TestTenants(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	platforms := map[string]*kit.Platform{}
	for _, tenant := range []string{"ours", "theirs"} {
		all := kit.MutexKind.Rights.And(rights.Line()).And(rights.Identity()).And(kit.ClientRights["go-redis"]).For(tenant+":*", tenant)
		platforms[tenant] = kit.Limited(t, s, "go-redis", tenant, all.Rules(""))
	}
	clients := func(tenant string) (a, b *holdfast.Client) {
		as := holdfast.WithTenant(tenant)
		a, b = platforms[tenant].Client(t, as), platforms[tenant].Client(t, as)
		for _, c := range []*holdfast.Client{a, b} {
			if prefix := protocol.TenantPrefix(tenant); !strings.HasPrefix(c.ID(), prefix) || c.ID()[14] != '8' {
				t.Errorf("%s has a client %s; want %s", tenant, c.ID(), prefix)
			}
		}
		return a, b
	}
	ours, waiter := clients("ours")
	theirs, _ := clients("theirs")

	h := kit.Must(t)(ours.NewMutex("ours:x").Lock(background))
	kit.WaitFor(t, "the identity", func() bool {
		return s.Cli(t, "EXISTS", protocol.ClientKey(h.Owner().String())) == "1"
	})
	got := make(chan *holdfast.Hold, 1)
	go func() {
		h, err := waiter.NewMutex("ours:x").Lock(background)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	kit.WaitFor(t, "an ask", func() bool { return s.Cli(t, "HLEN", protocol.RequestsKey("ours:x")) == "1" })
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "theirs", Password: "pw"})
	defer func() { kit.OK(t, rdb.Close()) }()
	key := protocol.ClientKey(h.Owner().String())
	refused := [][]any{{"HSET", key, "program", "theirs"}, {"HGET", key, "program"}, {"EVAL", "return redis.call('HSET', KEYS[1], 'program', 'theirs')", 1, key}}
	if redistest.AtLeast(t, 6, 2) { // before it there are no rights on channels
		refused = append(refused, []any{"PUBLISH", protocol.GrantChannel(waiter.ID(), "ours:x", false), "x"})
	}
	for _, args := range refused {
		if err := rdb.Do(background, args...).Err(); err == nil || !strings.Contains(strings.ToLower(err.Error()), "noperm") && !strings.Contains(err.Error(), "can't access") {
			t.Errorf("%v: %v", args, err)
		}
	}
	kit.Unlock(t, h)
	if next := <-got; next != nil {
		kit.Unlock(t, next)
	}
	kit.Unlock(t, kit.Must(t)(theirs.NewMutex("theirs:x").Lock(background)))
	admin := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { kit.OK(t, admin.Close()) }()
	log, err := admin.ACLLog(background, 128).Result()
	kit.OK(t, err)
	for _, refused := range log {
		if refused.Username == "ours" && !strings.HasPrefix(refused.Object, "client") { // go-redis tries CLIENT SETINFO
			t.Errorf("a right is missing: %+v", refused)
		}
	}
}
