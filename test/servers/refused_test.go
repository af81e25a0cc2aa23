package servers

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A server that refuses writes for a while: what each kind of refusal is called,
// how it begins, and how it ends. What adapters make of others is tested in package drivertest.
var refusals = []struct {
	word       string
	begin, end []string
}{
	{"OOM", []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
	{"READONLY", []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
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
		for _, p := range kit.Both(refusal.word, []string{s.Addr()}, kit.CLI(s)) {
			for _, k := range kit.Kinds {
				t.Run(p.Name+"/"+k.Name, func(t *testing.T) {
					failed := make(chan error, 1)
					open := p.Open
					p := *p
					p.Open = func(t *testing.T) driver.Driver { return noticing{open(t), failed} }
					name := kit.Fresh()
					h := kit.Must(t)(k.Lock(p.Client(t), name).Lock(background))
					got := turn(k.Against(p.Client(t), name))
					p.AwaitWaiter(t, k, name)
					s.Cli(t, refusal.begin...)
					unlocked := make(chan error, 1)
					go func() { unlocked <- h.Unlock() }()
					// Those with readers, and those in a line, delete something first, which frees memory.
					if refusal.word != "OOM" || k.Readers == nil && !k.AlwaysListed && !k.Listed() {
						for !strings.Contains((<-failed).Error(), refusal.word) {
							continue // it was given up
						}
					}
					s.Cli(t, refusal.end...)
					kit.OK(t, <-unlocked, <-got)
					p.WantNothing(t, k, name)
				})
			}
		}
	}
}
