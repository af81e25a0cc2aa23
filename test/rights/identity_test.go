package rights

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Who may not use the hash locks all the same, and is refused once; who may needs no more than
// docs/acl.md says.
func TestIdentityACL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for user, keys := range map[string]string{"may": "~holdfast_client:*", "mustnot": "~lk:*"} {
		s.Cli(t, kit.Known(t, []string{
			"ACL", "SETUSER", user, "on", ">pw", "resetkeys", "resetchannels", "-@all", "~lk:*", "~holdfast_line:*", "~holdfast_asks:*", "~holdfast_turn:*", keys, "&redisson_lock__channel:*",
			"+eval", "+evalsha", "+time", "+exists", "+hdel", "+hget", "+hset", "+hkeys", "+hgetall", "+hexists", "+pttl", "+pexpire", "+del",
			"+publish", "+subscribe", "+unsubscribe", "+ping", "+hello", "+auth", "+client",
		})...)
		t.Run(user, func(t *testing.T) {
			p := kit.GoRedis("acl", redis.UniversalOptions{Addrs: []string{s.Addr()}, Username: user, Password: "pw"}, kit.CLI(s))
			billing := holdfast.WithIdentity(holdfast.Identity{Program: "billing", Host: "web-3"})
			a, b := p.Client(t, billing), p.Client(t, billing)
			name := "lk:" + user
			hold := kit.Must(t)(a.NewMutex(name).TryLock(background))
			named := func() bool {
				_, err := b.NewMutex(name).TryLock(background)
				kit.WantError(t, err, holdfast.ErrLocked)
				return strings.Contains(err.Error(), "billing@web-3")
			}
			if user == "may" {
				kit.WaitFor(t, "the name", named)
			} else if named() {
				t.Error("it is named though it may not write")
			}
			kit.Unlock(t, hold)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	log := s.Cli(t, "ACL", "LOG")
	if strings.Contains(log, "username\nmay\n") || !strings.Contains(log, "username\nmustnot\n") {
		t.Errorf("refused: %s", log)
	}
}
