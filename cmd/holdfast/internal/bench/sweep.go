package bench

import (
	"context"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// sweep removes what is left of the locks, which is nothing unless something has
// failed.
func (r *run) sweep() *exit.Error {
	ctx, cancel := context.WithTimeout(context.Background(), sweepLimit)
	defer cancel()
	for _, name := range append(r.names, r.first) {
		for _, key := range r.keys(name) { // one by one: on a cluster, keys of one call have one slot
			if err := r.rdb.Del(ctx, key).Err(); err != nil {
				return exit.Because(exit.Unavailable, "it is not certain that nothing is left behind: locks whose names begin with %q end with their lease "+
					"within %v; Redis (%s) cannot be used: %v", r.Prefix, r.Lease, r.Target, connect.Explain(err))
			}
		}
	}
	return nil
}

// keys are all that a lock of the kind may have.
func (r *run) keys(name string) []string {
	switch r.Kind {
	case Fair:
		return []string{name, protocol.FairQueueKey(name), protocol.FairTimeoutsKey(name), protocol.FairHeartbeatsKey(name)}
	case Read, Write:
		return []string{name, protocol.ReservationKey(name)}
	default:
		return []string{name}
	}
}
