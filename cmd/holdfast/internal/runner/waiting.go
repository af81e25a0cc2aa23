//go:build unix

package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// When to say that we wait, and for how long to ask for whom.
const (
	firstReport  = time.Second
	laterReports = time.Minute
	askLimit     = time.Second
)

// reportWait says that we wait, and for whom, until ctx ends.
func (r *run) reportWait(ctx context.Context) {
	began := time.Now()
	next := time.NewTimer(firstReport)
	defer next.Stop()
	for prefix := "waiting"; ; prefix = "still waiting" {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		asking, cancel := context.WithTimeout(ctx, askLimit)
		state, err := r.whole.Inspect(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		e := event{Event: "waiting", WaitedMS: milliseconds(time.Since(began))}
		for _, h := range state.Holders {
			ttl := h.TTL.Milliseconds()
			if h.TTL == holdfast.NoExpiry {
				ttl = -1
			}
			one := holder{Who: h.Who.String(), HeldMS: h.HeldFor.Milliseconds(), Mode: h.Mode, TTLMS: ttl}
			one.Owner, one.Permit = r.ownerOrPermit(h.Owner)
			e.Holders = append(e.Holders, one)
		}
		r.happened(e)
		r.noticef("%s for %s%s", prefix, r.wanted(), r.waitingFor(state, err))
		next.Reset(laterReports)
	}
}

// waitingFor says who has what we wait for, behind a colon, as far as is known.
func (r *run) waitingFor(state holdfast.State, err error) string {
	var backend *holdfast.BackendError
	switch {
	case errors.As(err, &backend):
		return fmt.Sprintf("; who has it is not known, because Redis (%s) cannot be asked: %v", r.Server, connect.Explain(backend.Err))
	case err != nil:
		return fmt.Sprintf("; Redis (%s) does not answer", r.Server)
	case r.Kind == Permits:
		return waitingForPermit(state)
	}
	holders := state.Holders
	switch {
	case len(holders) == 1:
		return ": it is " + heldBy(holders[0].Owner, holders[0].Who, holders[0].HeldFor, holders[0].TTL)
	case len(holders) > 1:
		return fmt.Sprintf(": it is held by %s and %d more%s", present.Who(holders[0].Who, holders[0].Owner.String()), len(holders)-1, remaining(state.TTL))
	case len(state.Waiters) > 1: // we are one of them
		return fmt.Sprintf(": %d stand in line for it", len(state.Waiters))
	}
	return ""
}

func waitingForPermit(state holdfast.State) string {
	if state.Permits == 0 {
		return ": it has none; --permits says how many there are"
	}
	if len(state.Holders) < state.Permits {
		return "" // one was given back just now, or is kept for somebody who wants several
	}
	first := holdfast.NoExpiry
	for _, h := range state.Holders {
		first = min(first, h.TTL)
	}
	words := fmt.Sprintf(": %d of %d are held", len(state.Holders), state.Permits)
	if first != holdfast.NoExpiry {
		words += strings.Replace(remaining(first), ",", ", one for", 1)
	}
	return words
}

// heldBy says who holds a lock, for how long, and for how much longer, as far as is known.
func heldBy(owner holdfast.Owner, who holdfast.Identity, held, ttl time.Duration) string {
	text := "held by "
	if protocol.Kept(owner.String()) {
		text = "kept by "
	}
	text += present.Who(who, owner.String())
	if held > 0 {
		text += ", for " + present.Span(held)
	}
	if ttl == holdfast.NoExpiry || ttl > 0 {
		text += ", " + present.Remaining(owner.String(), ttl)
	}
	return text
}

// remaining says for how long a lock is held, if that is known.
func remaining(ttl time.Duration) string {
	switch {
	case ttl == holdfast.NoExpiry:
		return ", without an end"
	case ttl <= 0:
		return ""
	}
	return ", " + present.Span(ttl) + " more unless renewed"
}
