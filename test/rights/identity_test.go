package rights

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Who may not use the hash locks all the same, and is refused once; who may needs no more than
// docs/acl.md says.
func TestIdentityACL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for user, keys := range map[string][]string{"may": {"holdfast_client:*"}, "mustnot": nil} {
		t.Run(user, func(t *testing.T) {
			name := kit.Fresh()
			rights := kit.PlainRights.And(kit.LineRights).And(kit.ClientRights["go-redis"]).And(kit.Rights{Keys: keys})
			p := kit.Limited(t, s, "go-redis", user, rights.Rules(name))
			billing := holdfast.WithIdentity(holdfast.Identity{Program: "billing", Host: "web-3"})
			a, b := p.Client(t, billing), p.Client(t, billing)
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
			kit.OK(t, a.Close())
		})
	}
	log := s.Cli(t, "ACL", "LOG")
	if strings.Contains(log, "username\nmay\n") || !strings.Contains(log, "username\nmustnot\n") {
		t.Errorf("refused: %s", log)
	}
}
