package ledger

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// Hold is one hold of a side.
type Hold[V any] struct {
	// Value is the caller's own.
	Value V
	// Lease is what it was acquired with.
	Lease time.Duration
	// Fixed says that it is not renewed.
	Fixed bool
	// Shares says that it has one count together with the others that share.
	Shares bool
	// Lost is why it is lost; nil if it is not.
	Lost error
	// Trusted is until when a lost hold could be trusted.
	Trusted mono.Time
}

// Run is what the holds of a side have in common from the first to the last. It is kept by those that have been dropped
// and not given back yet.
type Run struct {
	lost  error // why it is lost; nil if it is not
	taken bool  // Redis had it no more
}

// Taken is why the run was lost, if Redis had it no more; nil if it had.
func (r *Run) Taken() error {
	if !r.taken {
		return nil
	}
	return r.lost
}

// Reason is why a run is lost.
type Reason uint8

// Why runs are lost.
const (
	// Taken: Redis does not know the owner any more.
	Taken Reason = iota + 1
	// Unanswered: no renewal was acknowledged in time.
	Unanswered
	// LeaseOver: the lease has run out, or what is held has ended.
	LeaseOver
	// MaxHoldOver: the longest time is over.
	MaxHoldOver
)
