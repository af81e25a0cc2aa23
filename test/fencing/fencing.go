// Package fencing shows resources that check fencing tokens. A holder may be
// paused for so long that its lock is another's when it goes on, and not know it
// yet when it writes. A resource that refuses a token smaller than the last one
// it has seen is safe from that.
package fencing

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

// ErrStale says that a later holder has written already.
var ErrStale = errors.New("the token is older than that of the last write")

// Under runs a write under the fenced lock of the given name, with its token.
func Under(ctx context.Context, client *holdfast.Client, name string,
	write func(ctx context.Context, token int64) error,
) error {
	hold, err := client.NewMutex(name, holdfast.Fenced()).Lock(ctx)
	if err != nil {
		return err
	}
	return errors.Join(write(hold.Context(), hold.Token()), hold.Unlock())
}
