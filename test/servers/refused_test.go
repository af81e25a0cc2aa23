package servers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A server that refuses writes for a while: what each kind of refusal is called,
// how it begins, and how it ends.
var refusals = []struct {
	word       string
	begin, end func(t *testing.T, s *redistest.Server)
}{
	{"OOM", configSet("maxmemory", "1"), configSet("maxmemory", "0")},
	{"READONLY", command("REPLICAOF", "127.0.0.1", "1"), command("REPLICAOF", "NO", "ONE")},
	{"MISCONF", failToSave, configSet("save", "")},
}

func command(args ...string) func(*testing.T, *redistest.Server) {
	return func(t *testing.T, s *redistest.Server) {
		t.Helper()
		s.Cli(t, args...)
	}
}

func configSet(name, value string) func(*testing.T, *redistest.Server) {
	return command("CONFIG", "SET", name, value)
}

// failToSave has the server fail to write a snapshot: there is a directory where
// the file should be. It is refused for as long as snapshots are wanted.
func failToSave(t *testing.T, s *redistest.Server) {
	t.Helper()
	failed := func() bool {
		return strings.Contains(s.Cli(t, "INFO", "persistence"), "rdb_last_bgsave_status:err")
	}
	if !failed() {
		dir := kit.Lines(s.Cli(t, "CONFIG", "GET", "dir"))[1]
		kit.OK(t, os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o700))
		s.Cli(t, "BGSAVE")
		kit.WaitFor(t, "the snapshot to fail", failed)
	}
	s.Cli(t, "CONFIG", "SET", "save", "3600 1")
}

// noticing tells of every call that fails.
type noticing struct {
	driver.Driver
	failed chan<- error
}

func (d noticing) Eval(ctx context.Context, call driver.Call) (any, error) {
	reply, err := d.Driver.Eval(ctx, call)
	if err != nil {
		select {
		case d.failed <- err:
		default:
		}
	}
	return reply, err
}

// A server that refuses writes for a while costs nobody a lock: an Unlock is
// repeated, and who waits goes on waiting, and gets the lock.
func TestWritesRefusedForAWhile(t *testing.T) {
	t.Parallel()
	for _, refusal := range refusals {
		s := redistest.Start(t)
		for _, p := range both(refusal.word, []string{s.Addr()}, kit.CLI(s)) {
			if p.Name == "MISCONF/rueidis" {
				continue // rueidis 1.0.79 panics if it unsubscribes meanwhile; see rueidisdriver
			}
			for _, k := range kit.Kinds {
				t.Run(p.Name+"/"+k.Name, func(t *testing.T) {
					failed := make(chan error, 1)
					open := p.Open
					p := *p
					p.Open = func(t *testing.T) driver.Driver { return noticing{open(t), failed} }
					name := p.Fresh(t, k)
					h := kit.Must(t)(k.Lock(p.Client(t), name).Lock(background))
					got := turn(k.Against(p.Client(t), name))
					p.AwaitWaiter(t, k, name)
					refusal.begin(t, s)
					unlocked := make(chan error, 1)
					go func() { unlocked <- h.Unlock() }()
					// Those with readers, and those in a line, delete something first, which frees memory.
					if refusal.word != "OOM" || k.Readers == nil && !k.Queues && !k.Line {
						for !strings.Contains((<-failed).Error(), refusal.word) {
							continue // it was given up
						}
					}
					refusal.end(t, s)
					kit.OK(t, <-unlocked, <-got)
					p.WantNothing(t, k, name)
				})
			}
		}
	}
}
