package hold

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The holder of a lock that somebody overwrites learns of it by the next renewal.
func TestOverwrittenIsToldByRenewal(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		h := kit.Must(t)(w.Lock(c).Lock(background))
		w.Do("SET", "x", "something else")
		time.Sleep(11 * time.Second) // the lease is 30 s, and renewed at a third of it
		kit.WantError(t, context.Cause(h.Context()), holdfast.ErrLost)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		w.Do("DEL", "x")
		time.Sleep(time.Minute) // what a reader has left
	})
}
