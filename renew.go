package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// group is what the renewals of one call have in common.
type group struct {
	script *driver.Script
	slot   int
}

// group returns the renewal group of a lock: its script and, where the server
// asks for it, its slot.
func (c *Client) group(k *kind) group {
	return group{script: k.renew(Owner{}, 0, 0).script, slot: c.slot(k.name)}
}

// slot is that of a key, where the server has slots.
func (c *Client) slot(key string) int {
	if c.driver.Slotted() {
		return wire.Slot(key)
	}
	return 0
}

// renew sends one batch for the watchdog. It returns when ctx ends; what arrives
// after that does nothing.
//
// While a cluster moves the batch's slot, some of its locks are here and some
// there, and neither node renews them all: they are renewed one by one.
func (c *Client) renew(ctx context.Context, g any, batch []watchdog.Renewal) ([]bool, error) {
	held, err := c.renewTogether(ctx, g.(group), batch) //nolint:forcetypeassert // the watchdog's groups are groups
	if len(batch) == 1 || !moving(err) {
		return held, err
	}
	held = make([]bool, len(batch))
	errs := make([]error, len(batch))
	var all sync.WaitGroup
	for i := range batch {
		all.Go(func() {
			one, err := c.renewTogether(ctx, g.(group), batch[i:i+1]) //nolint:forcetypeassert // see above
			held[i], errs[i] = err == nil && one[0], err
		})
	}
	all.Wait()
	return held, errors.Join(errs...)
}

// moving reports whether a cluster has refused a call because it is moving its
// keys.
func moving(err error) bool {
	var refused *driver.Error
	return errors.As(err, &refused) && strings.HasPrefix(refused.Error(), "TRYAGAIN")
}

// renewTogether sends one batch as one call.
func (c *Client) renewTogether(ctx context.Context, g group, batch []watchdog.Renewal) ([]bool, error) {
	all := request{script: g.script}
	answered := make([]func(outcome), len(batch))
	for i, r := range batch {
		t := r.Ward.(*tenure) //nolint:forcetypeassert // the watchdog's wards are tenures
		answered[i] = t.expect(r.TTL)
		one := t.kind.renew(t.owner, t.counts(), r.TTL)
		all.keys = append(all.keys, one.keys...)
		all.args = append(all.args, one.args...)
	}
	deadline, _ := ctx.Deadline()
	timeout := time.Until(deadline)
	f := c.launch(all, timeout)
	err := f.await(ctx, timeout)
	for _, tell := range answered {
		tell(outcome{err: err})
	}
	if err != nil {
		return nil, err
	}
	if f.answer.Code == script.Late {
		return nil, errLate
	}
	if len(f.answer.Rest) != len(batch) {
		return nil, fmt.Errorf("%d answers to %d renewals", len(f.answer.Rest), len(batch))
	}
	held := make([]bool, len(batch))
	for i, r := range batch {
		count, err := r.Ward.(*tenure).renewed(f.answer, i, f.sent) //nolint:forcetypeassert // see above
		if err != nil {
			return nil, err
		}
		held[i] = count > 0
	}
	return held, nil
}

// renewed reads element i of an answer to renewals: how often the owner holds the
// lock. If the answer says for how long, too, others may have made that longer, and
// the deadline moves.
func (t *tenure) renewed(answer script.Answer, i int, sent time.Time) (count int64, err error) {
	if t.kind.found == nil {
		return answer.Int(i)
	}
	found, err := t.kind.found(answer, i)
	if err != nil || found.count == 0 {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if found.gone < 0 {
		found.gone = MaxLease
	}
	t.knownEnd = later(t.knownEnd, time.Now().Add(found.gone))
	t.keyEnd = later(t.keyEnd, t.knownEnd)
	if !t.until.IsZero() {
		found.left = min(found.left, t.until.Sub(sent))
	}
	if t.entry != nil && found.left >= 0 {
		t.kind.client.dog.Acknowledge(t.entry, sent, found.left)
	}
	return found.count, nil
}
