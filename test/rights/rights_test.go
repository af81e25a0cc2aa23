package rights

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/rights"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

var background = context.Background()

// Who may not use the hash locks all the same, and is refused once; who may needs no more than
// docs/acl.md says.
func TestIdentityACL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for user, more := range map[string]rights.Rights{"may": rights.Identity(), "mustnot": {}} {
		t.Run(user, func(t *testing.T) {
			name := kit.Fresh()
			all := kit.MutexKind.Rights.And(rights.Line()).And(kit.ClientRights["go-redis"]).And(more)
			p := kit.Limited(t, s, "go-redis", user, all.Rules(name))
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

// Expire and Delete need what docs/acl.md says of them, and nothing less will do.
func TestRightsToExpireAndDelete(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := adminOf(t, s)
	use := func(without string) error {
		name := kit.Fresh()
		k := rights.Kinds()[slices.Index(rights.IDs(), "unleased-semaphore")]
		least := rights.Rights{Commands: []string{"EVAL", "EVALSHA", "EXISTS", "TIME"}, Keys: k.Keys}
		all := least.And(k.Expiry).And(kit.ClientRights["go-redis"]).Rules(name)
		c := kit.Limited(t, s, "go-redis", name, lessOne(all, "+"+without, name)).Client(t)
		admin.Do(t, name, "SET", name, "3")
		semaphore := c.NewUnleasedSemaphore(name)
		for _, d := range []time.Duration{time.Hour, holdfast.NoExpiry} {
			if _, err := semaphore.Expire(background, d); err != nil {
				return err
			}
		}
		done, err := semaphore.Delete(background)
		if err == nil && !done {
			err = errors.New("it was not deleted")
		}
		return err
	}
	kit.OK(t, use("")) // first, while the server has no script
	for _, command := range []string{"pexpire", "persist", "del", "exists", "time", "evalsha"} {
		if err := use(command); err == nil {
			t.Errorf("nothing fails without %s", command)
		}
	}
}

// Ids of owners, calls and permits are not to be guessed: who knows one can act in its name. They come from
// crypto/rand, of which 122 bits stand in a client's.
func TestIDsAreRandom(t *testing.T) {
	t.Parallel()
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		const clients = 500
		seen := map[string]bool{}
		ones := make([]int, 32) // of each digit, how often its lowest bit is set
		for range clients {
			c, _ := w.Client()
			id, _, _ := strings.Cut(c.NewOwner().String(), ":")
			if seen[id] || len(id) != 36 || id[14] != '8' || !strings.ContainsAny(id[19:20], "89ab") {
				t.Fatalf("%q after %d others", id, len(seen))
			}
			seen[id] = true
			for i, digit := range []byte(strings.ReplaceAll(id, "-", "")) {
				ones[i] += strings.IndexByte("0123456789abcdef", digit) & 1
			}
		}
		for i, n := range ones {
			// Six standard deviations and more; digit 12 is the version.
			if i != 12 && (n < clients/2-70 || n > clients/2+70) {
				t.Errorf("digit %d is odd %d times of %d", i, n, clients)
			}
		}
	})
}
