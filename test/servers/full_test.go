package servers

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A server that has as many connections as its maxclients allows, while those of a client are cut, is an outage: TryLock says why, a hold
// lives, and a waiter goes on waiting.
func TestFullServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for p, proxy := range kit.ThroughProxy(t, s) {
		t.Run(p.Name, func(t *testing.T) {
			c := p.Client(t, holdfast.WithTimeout(3*time.Second))
			hold := kit.Must(t)(c.NewMutex(kit.Fresh()).Lock(background))
			waited := c.NewMutex(kit.Fresh())
			name := waited.Name()
			s.Cli(t, "HSET", name, "somebody:1", "1")
			got := turn(waited)
			p.AwaitWaiter(t, kit.MutexKind, name)

			last, err := net.Dial("tcp", s.Addr())
			kit.OK(t, err)
			defer last.Close()
			say := func(command string) {
				_, err := fmt.Fprintf(last, "%s\r\n", command)
				kit.OK(t, err)
				_, err = last.Read(make([]byte, 100))
				kit.OK(t, err)
			}
			say("CONFIG SET maxclients 1")
			proxy.Cut()
			kit.WaitFor(t, "an error that says that the server is full", func() bool { // a call on a connection that was cut may not
				_, err := c.NewMutex(kit.Fresh()).TryLock(background)
				var failed *holdfast.BackendError
				if !errors.As(err, &failed) {
					t.Fatalf("TryLock: %v", err)
				}
				return strings.Contains(err.Error(), "as many connections as its maxclients allows") &&
					strings.Contains(err.Error(), proxy.Addr()+" refuses connections: ERR max number of clients reached")
			})
			say("DEL " + name)
			say("CONFIG SET maxclients 1000")
			kit.OK(t, <-got)
			kit.OK(t, hold.Context().Err(), hold.Unlock())
		})
	}
}
