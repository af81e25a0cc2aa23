package hold

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// What several locks say that were not acquired.

// TestARefusalOfSeveralLocksIsTold, whichever ends first, the wait or the time of a call. Of several locks of one name only the first is
// waited for.
func TestARefusalOfSeveralLocksIsTold(t *testing.T) {
	fake(t, func(s *stage) {
		good, bad := kit.Several(s.World, 3), kit.Several(s.Further(), 3)
		bad.Fault(full, 0, 1, 2)
		g, a, b := good.Clients[0], bad.Clients[0], bad.Clients[1]
		for what, test := range map[string]struct {
			l    *holdfast.MultiLock
			some bool // of its parts may have been acquired
		}{
			"one client":      {l: holdfast.NewMultiLock(kit.Mutexes(a, "x", "y")...)},
			"two clients":     {l: holdfast.NewMultiLock(a.NewMutex("x"), b.NewMutex("y"))},
			"RedLock":         {l: holdfast.NewRedLock(a.NewMutex("x"), b.NewMutex("x")), some: true},
			"with a good one": {l: holdfast.NewMultiLock(g.NewMutex("y"), a.NewMutex("y")), some: true},
			"RedLocks":        {l: holdfast.NewMultiLock(good.Redlock("x"), bad.Redlock("x")), some: true},
			"permits":         {l: holdfast.NewMultiLock(g.NewPermitSemaphore("s", holdfast.Permits(3)), a.NewPermitSemaphore("s", holdfast.Permits(3))), some: true},
		} {
			for _, wait := range []time.Duration{0, 500 * time.Millisecond, time.Minute} {
				_, err := test.l.Lock(background, holdfast.Wait(wait))
				if failed := s.backend(what, err, "OOM"); failed.MayHaveRun && !test.some {
					s.Errorf("%s, for %v: %v", what, wait, err)
				}
			}
		}
		bad.Fault(memdriver.Fault{}, 0, 1, 2)
		time.Sleep(time.Minute)
		s.Do("DEL", "s")
	})
}

// TestPartsThatAreLeft: some of several locks are acquired, and cannot be given back, or can, if not always before the call
// returns.
func TestPartsThatAreLeft(t *testing.T) {
	values(t, fake, []bool{false, true}, func(s *stage, left bool) {
		of := kit.Several(s.World, 3, holdfast.WithTimeout(time.Second))
		for i, d := range of.Drivers {
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				return memdriver.Fault{Refuse: kit.Refusal(i > 0), LoseRequest: left && call.Script.Name() != "acquire"}
			})
		}
		for what, l := range map[string]*holdfast.MultiLock{
			"multi-lock": holdfast.NewMultiLock(of.Clients[0].NewMutex("a"), of.Clients[1].NewMutex("b")),
			"RedLock":    of.Redlock("x"),
		} {
			for _, wait := range []time.Duration{0, 500 * time.Millisecond} {
				_, err := l.Lock(background, holdfast.Wait(wait))
				if stands := s.Do("KEYS", "[abx]") != ""; left && !stands || !s.backend(what, err, "").MayHaveRun {
					s.Errorf("%s, waiting for %v: something stands: %v, %v", what, wait, stands, err)
				}
				time.Sleep(time.Minute)
			}
		}
		of.Fault(memdriver.Fault{}, 0, 1, 2)
		time.Sleep(time.Minute)
		of.WantFree(s.T)
	})
}

// TestPartsOfAnEarlierTryThatAreLeft: a try has had one, which cannot be given back, and ended because another is held. The
// last one ends for another reason.
func TestPartsOfAnEarlierTryThatAreLeft(t *testing.T) {
	type combine = func(...holdfast.Locker) *holdfast.MultiLock
	rows(t, fake, map[string]combine{"multi-lock": holdfast.NewMultiLock, "RedLock": holdfast.NewRedLock}, func(s *stage, combine combine) {
		of := kit.Several(s.World, 3, holdfast.WithTimeout(time.Second))
		rivals := of.Again()
		held := []*holdfast.Hold{
			s.must(rivals.Clients[1].NewMutex("x").Lock(background)), s.must(rivals.Clients[2].NewMutex("x").Lock(background)),
		}
		of.Drivers[0].SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseRequest: call.Script.Name() != "acquire"}
		})
		l := combine(of.Clients[0].NewMutex("x"), of.Clients[1].NewMutex("x"), of.Clients[2].NewMutex("x"))
		waits := kit.Begin(func() (*holdfast.Hold, error) { return l.Lock(background, holdfast.Wait(10*time.Second)) })
		time.Sleep(time.Second)
		of.Fault(full, 1, 2)
		failed := s.backend("Lock", (<-waits).Err, "")
		s.WantReply("x", "KEYS", "*")
		if !failed.MayHaveRun {
			s.Error(failed)
		}
		of.Fault(memdriver.Fault{}, 0, 1, 2)
		s.unlock(held...)
		time.Sleep(time.Minute)
		of.WantFree(s.T)
	})
}

// TestAWaitThatIsOverAtOnce is not its caller's giving up, even if a part has not begun by then. That takes real time.
func TestAWaitThatIsOverAtOnce(t *testing.T) {
	lockers := make([]holdfast.Locker, 3)
	for i := range lockers {
		server, err := memdriver.NewServer()
		kit.OK(t, err)
		t.Cleanup(server.Close)
		c, err := testclient.New(server.Driver())
		kit.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
		lockers[i] = c.NewMutex("x")
	}
	l := holdfast.NewRedLock(lockers...)
	for i := range 3000 {
		h, err := l.Lock(background, holdfast.Wait(1+time.Duration(i)*300*time.Nanosecond))
		switch {
		case err == nil:
			kit.Unlock(t, h)
		case errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
	}
}
