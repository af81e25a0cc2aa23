package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/fencing"
)

// A server is killed and comes back. With every write on disk a hold goes on, and nobody else gets the lock. With
// nothing on disk another one gets it, and who held it is told.
func TestRestartedServer(t *testing.T) {
	t.Parallel()
	for what, options := range map[string][]redistest.Option{"nothing on disk": nil, "every write on disk": {redistest.WithAppendOnly()}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, options...)
			p := goRedis("restarted", redis.UniversalOptions{Addrs: []string{s.Addr()}}, direct(t, s))
			// Long enough for a busy machine to start a server; renewed, it is lost within a third of it.
			a, b := p.client(t, holdfast.WithLease(12*time.Second)), p.client(t)
			holds, names := map[*kind]*holdfast.Hold{}, map[*kind]string{}
			for _, k := range kinds {
				names[k] = fresh()
				holds[k] = must(t)(k.lock(a, names[k]).Lock(background))
			}
			s.Restart()
			for _, k := range kinds {
				other, err := k.against(b, names[k]).TryLock(background)
				if len(options) > 0 {
					wantError(t, err, holdfast.ErrLocked)
					if cause := holds[k].Context().Err(); cause != nil {
						t.Errorf("%s: the hold is lost: %v", k.name, cause)
					}
					unlock(t, holds[k])
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", k.name, err)
					continue
				}
				select {
				case <-holds[k].Context().Done():
					wantLost(t, holds[k])
				case <-time.After(15 * time.Second):
					t.Errorf("%s: it was not told", k.name)
				}
				_ = holds[k].Unlock() // it says that the hold was lost
				unlock(t, other)
			}
		})
	}
}

// One replica has acknowledged the acquire, and the other one is promoted: two hold the lock, which no acknowledgement by
// some excludes. The token that the second one gets is greater all the same, so the first one's write is refused.
func TestPromotedReplicaThatDidNotAcknowledge(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 2)
	primary := goRedis("primary", redis.UniversalOptions{Addrs: []string{s.Primary.Addr()}}, direct(t, s.Primary))
	behind := s.Replicas[1]
	behind.Cli(t, "REPLICAOF", "127.0.0.1", "1") // it hears of nothing any more
	waitFor(t, "one replica", func() bool { return strings.Contains(s.Primary.Cli(t, "INFO", "replication"), "connected_slaves:1") })
	name := fresh()
	first := must(t)(primary.client(t, holdfast.WithReplicaAck(1, 5*time.Second)).NewMutex(name, holdfast.Fenced()).Lock(background))
	behind.Cli(t, "REPLICAOF", "NO", "ONE")
	promoted := goRedis("promoted", redis.UniversalOptions{Addrs: []string{behind.Addr()}}, direct(t, behind))
	second := must(t)(promoted.client(t).NewMutex(name, holdfast.Fenced()).TryLock(background))
	if first.Context().Err() != nil || second.Token() <= first.Token() {
		t.Errorf("%v; the second token is %d, after %d", first.Context().Err(), second.Token(), first.Token())
	}
	rdb := redis.NewClient(&redis.Options{Addr: behind.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	ok(t, fencing.SaveInRedis(background, rdb, second.Token(), "order", "second"))
	wantError(t, fencing.SaveInRedis(background, rdb, first.Token(), "order", "first"), fencing.ErrStale)
	unlock(t, first)
	unlock(t, second)
}

// testName is the name of a test as pages have it.
var testName = regexp.MustCompile("`(Test[A-Za-z0-9_]+|Fuzz[A-Za-z0-9_]+)`")

// Every test that the pages on guarantees and on security name exists.
func TestProofsExist(t *testing.T) {
	t.Parallel()
	defined := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	if err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range function.FindAllStringSubmatch(string(text), -1) {
			defined[found[1]] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for page, least := range map[string]int{"../docs/guarantees.md": 15, "../docs/security.md": 25} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		named := testName.FindAllStringSubmatch(string(text), -1)
		for _, name := range named {
			if !defined[name[1]] {
				t.Errorf("%s names %s, which is no test", page, name[1])
			}
		}
		if len(named) < least {
			t.Errorf("%s names only %d tests", page, len(named))
		}
	}
}
