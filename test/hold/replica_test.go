package hold

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A nested hold that is not acknowledged is given back, and the outer one stays.
func TestReplicaAck_Nested(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		w.Server.SetReplicas(1)
		c, _ := w.Client(holdfast.WithReplicaAck(1, time.Second))
		mu := c.NewMutex("x")
		outer := kit.Must(t)(mu.Lock(background))
		w.Server.SetReplicas(0)
		kit.Fails(t, holdfast.ErrNotReplicated)(mu.Lock(outer.Context()))
		time.Sleep(time.Minute)
		w.WantCount("x", outer.Owner(), 1)
		if err := outer.Context().Err(); err != nil {
			t.Errorf("the outer hold is lost: %v", err)
		}
		kit.Unlock(t, outer)
	})
}

// A waiter that is let in without acknowledgement gives the lock back, and the
// next one is told.
func TestReplicaAck_Waiting(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		w.Server.SetReplicas(1)
		strict, _ := w.Client(holdfast.WithReplicaAck(2, time.Second))
		c, _ := w.Client()
		h := kit.Must(t)(c.NewMutex("x").Lock(background))
		failed := make(chan error)
		go func() {
			_, err := strict.NewMutex("x").Lock(background)
			failed <- err
		}()
		time.Sleep(time.Second)
		kit.Unlock(t, h)
		kit.WantError(t, <-failed, holdfast.ErrNotReplicated)
		start := time.Now()
		kit.Unlock(t, kit.Must(t)(c.NewMutex("x").Lock(background)))
		kit.Took(t, time.Since(start), 0, 100*time.Millisecond, "the next one got it after %v")
	})
}

func TestReplicaAck_Bounds(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		for _, o := range []holdfast.ClientOption{
			holdfast.WithReplicaAck(0, time.Second), holdfast.WithReplicaAck(1, 0), holdfast.WithReplicaAck(1, 2*time.Hour),
		} {
			_, err := holdfast.New(w.Server.Driver(), o)
			kit.WantError(t, err, holdfast.ErrInvalid)
		}
	})
}

// A grant that too few replicas have acknowledged is given back also if Redis is away for longer than the client's lease,
// but not for as long as that of the call.
func TestUntrustedGrantOfALongLeaseIsGivenBack(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithReplicaAck(1, 100*time.Millisecond))
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseRequest: call.Script.Name() == "release"}
		})
		kit.Fails(t, holdfast.ErrNotReplicated)(c.NewMutex("x").TryLock(background, holdfast.FixedLease(10*time.Minute)))
		time.Sleep(2 * time.Minute)
		d.SetFaults(nil)
		time.Sleep(30 * time.Second)
		w.WantReply("0", "EXISTS", "x")
	})
}
