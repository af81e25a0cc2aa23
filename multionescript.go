package holdfast

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file takes several plain locks in one script. Each of them is then held
// as after an acquire of its own, and given back by itself.

// inOneScript takes all parts in one script if it can. It reports false if they have
// to be asked for one by one.
func (m *MultiLock) inOneScript(bound context.Context, a *compositeAcquire, c *composite) (done bool, err error) {
	kinds, ok := m.oneScript()
	if owner := a.owners.one(); !ok || owner == (Owner{}) || !a.config.oneTry && anyWaiter(kinds, owner) {
		return false, nil
	}
	stop := context.AfterFunc(bound, func() { c.abandon() })
	defer stop()
	holds, err := acquireAll(c.ctx, kinds, toTry(a.tryPart()))
	if err == nil && !stop() {
		err = context.Cause(bound)
	}
	for _, part := range holds {
		c.join(part)
	}
	singly := errors.Is(err, errSingly) || !a.config.oneTry && errors.Is(err, ErrLocked) // one at a time can be waited for
	if err != nil && !singly {
		tellRefused(c.ctx, refusedBy(kinds, err), nil, course{started: a.started}, err)
	}
	return !singly, a.inTime(bound, opAcquire, err)
}

// refusedBy returns the lock that err is about, or the first one.
func refusedBy(kinds []*kind, err error) *kind {
	var locked *LockedError
	if !errors.As(err, &locked) {
		return kinds[0]
	}
	i := slices.IndexFunc(kinds, func(k *kind) bool { return locked.Name == k.name })
	return kinds[max(i, 0)]
}

// anyWaiter reports whether somebody waits here for one of the locks, and so comes
// first.
func anyWaiter(kinds []*kind, owner Owner) bool {
	return slices.ContainsFunc(kinds, func(k *kind) bool { return k.client.queues.HasWaiters(k.queueFor(owner.String())) })
}

// oneScript returns the kinds of the parts, if they can be taken in one script.
func (m *MultiLock) oneScript() ([]*kind, bool) {
	first := m.parts[0].kind
	if len(m.parts) == 1 || first == nil {
		return nil, false
	}
	slot := first.client.calls.Slot(first.name)
	kinds := make([]*kind, len(m.parts))
	for i, p := range m.parts {
		kinds[i] = p.kind
		if p.kind == nil || !p.kind.oneScript || p.kind.client != first.client || first.client.calls.Slot(p.kind.name) != slot {
			return nil, false
		}
	}
	return kinds, true
}

// errSingly says that the locks are to be acquired one by one: another call of this owner is under way at one of them, and
// an Unlock of the others is not to wait for that; or an earlier hold of one is over, and it may have to be asked for anew
// ([acquisition.changed]).
var errSingly = errors.New("the locks are to be acquired one by one")

// acquireAll takes all locks, or none, in one script. With an error it may
// return holds that are to be given back.
func acquireAll(ctx context.Context, kinds []*kind, config lockConfig) ([]*Hold, error) {
	how := course{started: time.Now()}
	holds, err := acquireAllWithoutHooks(ctx, kinds, config, how.started)
	err = kinds[0].client.withHolder(ctx, err)
	tellAllAcquired(holds, how)
	return holds, err
}

// tellAllAcquired tells the hooks of new holds. If they panic, nobody gets any of them: all are told of, and given back.
func tellAllAcquired(holds []*Hold, how course) {
	told := 0
	defer func() {
		if told == len(holds) {
			return
		}
		for _, h := range holds {
			defer func() { _ = h.Unlock() }() // what Redis does not answer to, the client goes on with
		}
	}()
	for _, h := range slices.Backward(holds) {
		defer func() { // the first one last, so it runs first; each runs though one before it has panicked
			h.tellAcquired(how)
			told++
		}()
	}
}

// acquireAllWithoutHooks is acquireAll up to the hooks; see [acquireWithoutHooks].
func acquireAllWithoutHooks(ctx context.Context, kinds []*kind, config lockConfig, started time.Time) ([]*Hold, error) {
	all := make(acquisitions, 0, len(kinds))
	for _, k := range kinds {
		a, err := enter(ctx, k, config, started, false)
		if err != nil {
			for _, a := range all {
				a.state.freeChangeSem() // nothing was asked
			}
			return nil, err
		}
		defer a.leave()
		all = append(all, a)
	}
	res, changes := all.run()
	return all.conclude(res, changes)
}

// acquisitions are those of several locks, for one owner of one client.
type acquisitions []*acquisition

// run asks Redis until there is an answer, and returns the changes that were asked
// for. All changeSems are held.
func (all acquisitions) run() (res call.Result, changes []change) {
	c := all[0].client
	request, changes, err := all.build()
	if err != nil {
		return call.Result{Err: err}, changes
	}
	for _, a := range all {
		a.state.expect(a.lease)
	}
	res = c.calls.Do(all[len(all)-1].bound(), request) // it began last
	for _, a := range all {
		a.state.answered(a.lease, res.Err == nil && len(res.Unknown) == 0)
		a.unknown = append(a.unknown, res.Unknown...)
	}
	if res.Err != nil || res.Reply.Code != script.Changed {
		return res, changes
	}
	which, err := all.which(res, 1)
	if err != nil {
		return call.Result{Err: err}, changes
	}
	s := all[which].state
	if s.expired() {
		return call.Result{Err: errSingly, Unknown: res.Unknown}, changes
	}
	s.vanished() // nobody else changes this owner's count
	return call.Result{Err: s.whyLost(), Unknown: res.Unknown}, changes
}

// build builds the request that acquires all of them.
func (all acquisitions) build() (script.Request, []change, error) {
	changes := make([]change, len(all))
	names, each := make([]string, len(all)), make([]protocol.Acquire, len(all))
	var wrong error
	for i, a := range all {
		ch, err := a.nextChange()
		if err == nil {
			err = a.fitLease(ch)
		}
		if wrong == nil {
			wrong = err
		}
		changes[i] = ch
		names[i] = a.kind.name
		each[i] = protocol.Acquire{Owner: a.state.owner.String(), From: ch.from, To: ch.to, Lease: a.lease}
	}
	return protocol.AcquireAll(names, each), changes, wrong
}

// which reads which lock an answer is about.
func (all acquisitions) which(res call.Result, at int) (int, error) {
	n, err := res.Reply.Int(at)
	if err == nil && (n < 1 || int(n) > len(all)) {
		err = errors.New("the answer is about no lock that was asked for")
	}
	return int(n) - 1, err
}

// conclude makes of the last answer what each lock's caller gets. All changeSems are
// held, and freed or passed on.
func (all acquisitions) conclude(res call.Result, changes []change) ([]*Hold, error) {
	var holds []*Hold
	errs := make([]error, len(all))
	for i, a := range all {
		h, err := a.conclude(res, changes[i])
		if errs[i] = err; err == nil {
			holds = append(holds, h)
		}
	}
	if res.Has(script.Refused) {
		if which, err := all.which(res, 2); err == nil {
			return holds, errs[which]
		}
	}
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return holds, errs[i]
	}
	return holds, nil
}
