package holdfast

import (
	"context"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// MaxPermitsPerHold is how many permits one hold can have.
const MaxPermitsPerHold = protocol.MaxPermits

// PermitSemaphore is a semaphore whose permits have leases, like locks: the watchdog renews them, their holder is told of
// their loss, and those of a crashed process are available again when their lease has run out. Get one from
// [Client.NewPermitSemaphore].
//
// It has permits once [Permits], [PermitSemaphore.TrySetPermits] or another has set how many. Waiters of several processes
// get them in the order of [Client.NewMutex]. The longest-waiting large request reserves permits, unless it wants more
// than there are: other users of holdfast do not get them for ten seconds at a stretch, and then do for as long. Redisson:
// RPermitExpirableSemaphore, which takes the time of whichever client asks.
type PermitSemaphore struct {
	object
}

var _ Locker = (*PermitSemaphore)(nil)

// Lock acquires one permit, waiting for it if it must: [PermitSemaphore.Acquire]
// of one. Redisson: acquire.
func (s *PermitSemaphore) Lock(ctx context.Context, options ...LockOption) (*Hold, error) {
	return s.Acquire(ctx, 1, options...)
}

// TryLock acquires one permit if one is available now: [PermitSemaphore.TryAcquire] of one. Redisson: tryAcquire.
func (s *PermitSemaphore) TryLock(ctx context.Context, options ...TryOption) (*Hold, error) {
	return s.TryAcquire(ctx, 1, options...)
}

// Acquire acquires n permits as one hold, all or none, and waits until they are available, ctx ends, or [Wait] runs out:
// for more than there are in all it waits until somebody sets more, and [LogHooks] warn of that. Of one process, those who
// wait for the same number come first, first served. Permits are not reentrant: each call is an acquisition of its own.
// Without [FixedLease] the watchdog renews the hold; with it, it lasts as long as the first of its permits. If somebody
// gives some of them back by their ids, the hold goes on with the others, and is lost with the last one. [Hold.Unlock]
// gives all back.
//
// The error is as [Mutex.Lock]'s; it matches [ErrNoPermits] and [ErrLocked] if too few were available, as a
// [*PermitsError], and [ErrInvalid] if n is not between 1 and [MaxPermitsPerHold]. Redisson: acquire(permits), whose
// acquire(0) waits for ever.
func (s *PermitSemaphore) Acquire(ctx context.Context, n int, options ...LockOption) (*Hold, error) {
	return s.acquire(ctx, n, configOf(options))
}

// TryAcquire is Acquire without waiting. If Redis does not answer, it returns as [Mutex.TryLock] does. Redisson:
// tryAcquire(permits).
func (s *PermitSemaphore) TryAcquire(ctx context.Context, n int, options ...TryOption) (*Hold, error) {
	return s.acquire(ctx, n, toTry(options))
}

func (s *PermitSemaphore) acquire(ctx context.Context, n int, config lockConfig) (*Hold, error) {
	one, err := s.wanting(ctx, n, MaxPermitsPerHold, &config)
	if err != nil {
		return nil, err
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = one.client.newPermitID()
	}
	left := &shrinkingIDs{ids: ids}
	one.Permits = &engine.Permits{IDs: left.hex, Account: "permits " + ids[0], Channel: s.holders}
	one.Requests = heldPermits{PermitSet: protocol.PermitSet{Permits: s.protocol(), IDs: ids}, left: left}
	return one.acquire(ctx, Owner{}, &config)
}

// ReleasePermits gives permits back by their ids, whoever acquired them, all or none. Their hold goes on with those that
// are left, and is lost if none is, when its holder notices, as with ForceUnlock. The error matches [ErrNotHeld] if one of
// them is not held, or its lease has ended; [ErrInvalid] if an id cannot be read; the others are TrySetPermits's.
// Redisson: release, which gives an expired permit back, and reports an error all the same.
func (s *PermitSemaphore) ReleasePermits(ctx context.Context, ids ...Owner) error {
	raw := make([]string, len(ids))
	for i, id := range ids {
		var err error
		if raw[i], err = id.permit(); err != nil {
			return err
		}
	}
	if len(raw) == 0 {
		return checkCount(s.handle.Name, 0, 1, MaxPermitsPerHold)
	}
	res, err := s.handle.invoke(ctx, "release", s.protocol().GiveBack(raw))
	s.handle.Recheck()
	if err != nil {
		return err
	}
	if res.Reply.Code != script.Done && len(res.Unknown) == 0 { // else an earlier attempt may have given them back
		return lockerr.Problem(s.handle.Name, "a permit to release is not held", ErrNotHeld)
	}
	return nil
}

// ExtendPermit makes a permit live for at least d from now, whoever acquired it. It shortens no lease, but sets one on a
// permit that has none, as Redisson's may. Its hold's deadline moves as soon as the holder notices, but not beyond
// [WithMaxHold]; a hold of several permits ends with the first of them. The errors are ReleasePermits's. Redisson:
// updateLeaseTime, which shortens, too.
func (s *PermitSemaphore) ExtendPermit(ctx context.Context, id Owner, d time.Duration) error {
	d, err := checkLease(d)
	if err != nil {
		return err
	}
	raw, err := id.permit()
	if err != nil {
		return err
	}
	res, err := s.handle.invoke(ctx, "renew", s.protocol().Lease(raw, d))
	if err != nil {
		return err
	}
	if res.Reply.Code != script.Done {
		return lockerr.Problem(s.handle.Name, "the permit is not held", ErrNotHeld)
	}
	s.handle.Recheck()
	return nil
}

// TrySetPermits sets how many permits there are, if that was never set, and reports whether it was not. The error matches
// [ErrInvalid] if n is not between 0 and [MaxCount], or if the name cannot be one; [ErrOtherKind] if something else has
// the name; [ErrUntold] if it was done, but those who wait could not be told; ctx.Err() and its cause if ctx ends first;
// [ErrClosed]; or it is a [*BackendError]. After one that says MayHaveRun, or if ctx or the client ended meanwhile, it may
// have been done. Redisson: trySetPermits.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return s.set(ctx, n, false)
}

// SetPermits sets how many permits there are, held ones included. If more are
// held, none is available until that many have been given back. The errors are
// TrySetPermits's. Redisson: setPermits.
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	_, err := s.set(ctx, n, true)
	return err
}

func (s *PermitSemaphore) set(ctx context.Context, n int, always bool) (bool, error) {
	return s.counted(ctx, "set", n, 0, s.protocol().Set(s.handle.once(), n, always))
}

// AddPermits makes delta permits more available, or fewer if it is negative; of
// those that are held, none is taken away, and the number of available ones may
// fall below 0. The errors are TrySetPermits's. Redisson: addPermits.
func (s *PermitSemaphore) AddPermits(ctx context.Context, delta int) error {
	_, err := s.counted(ctx, "add", delta, -MaxCount, s.protocol().Add(s.handle.once(), delta))
	return err
}

// Inspect returns how the semaphore stands in Redis: how many permits there are, how many are available, and each that is
// held as a holder, with its id as the owner. It asks as [Mutex.Inspect] does; the errors are TrySetPermits's. Redisson:
// getPermits, availablePermits, acquiredPermits, getLeaseTime.
func (s *PermitSemaphore) Inspect(ctx context.Context) (State, error) {
	found, available, err := inspectState(ctx, &s.handle, s.protocol().Inspect())
	found.Available, found.Permits = available, int(protocol.Sum(int64(available), int64(len(found.Holders))))
	return found, err
}

// ForceUnlock takes every permit from whoever holds it, or those whose ids are named, announces that, and reports whether
// any was held. Holders are told, and errors are, as with [Mutex.ForceUnlock]; until then too many may believe that they
// have one.
func (s *PermitSemaphore) ForceUnlock(ctx context.Context, from ...Owner) (bool, error) {
	return force(ctx, side{s.handle.made(), s.protocol()}, from)
}

// Expire lets the semaphore be deleted d from now, with the permits that are held then, and reports whether it is
// there. With [NoExpiry] it lives until it is deleted. Otherwise d is bounded as a [FixedLease] is; anything else is
// [ErrInvalid]. No hold is trusted for longer, once its holder has noticed. Errors and earlier attempts are Delete's.
// Redisson: expire, clearExpire.
func (s *PermitSemaphore) Expire(ctx context.Context, d time.Duration) (bool, error) {
	return s.expire(ctx, d)
}

// Delete deletes the semaphore, and reports whether it was there. Permits that are held are lost; their holders notice as
// they notice ForceUnlock, and the error matches [ErrUntold] if they could not be told. After an earlier attempt without
// an answer it waits until that can do nothing any more; if the timeout or ctx ends first, the error is a [*BackendError]
// and what is made next may be deleted, too. Redisson: delete.
func (s *PermitSemaphore) Delete(ctx context.Context) (bool, error) { return s.remove(ctx) }

func (s *PermitSemaphore) protocol() protocol.Permits { return protocol.Permits{Name: s.handle.Name} }

// heldPermits asks for the permits of one acquisition: its count is one if they are held.
type heldPermits struct {
	protocol.PermitSet

	left *shrinkingIDs // which of them are held, as far as is known
}

// Renew asks about those that are left.
func (h heldPermits) Renew(_ string, _ int, ttl time.Duration) script.Request {
	return protocol.PermitSet{Permits: h.Permits, IDs: h.left.all()}.Renew("", 0, ttl)
}

// Weight is that of those that are left.
func (h heldPermits) Weight(places int) int {
	return protocol.PermitSet{IDs: h.left.all()}.Weight(places)
}

// ReadRenewal takes note of those that are not held any more.
func (h heldPermits) ReadRenewal(r script.Reply, i int) (protocol.Renewal, error) {
	found, err := h.PermitSet.ReadRenewal(r, i)
	if found.Count > 0 {
		h.left.drop(found.Missing)
	}
	return found, err
}

// shrinkingIDs is a set of permits that only becomes smaller.
type shrinkingIDs struct {
	mu  sync.Mutex
	ids []string // raw; replaced, not changed
}

func (p *shrinkingIDs) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids
}

// hex writes them as people do.
func (p *shrinkingIDs) hex() []string {
	left := p.all()
	ids := make([]string, len(left))
	for i, id := range left {
		ids[i] = hex.EncodeToString([]byte(id))
	}
	return ids
}

func (p *shrinkingIDs) drop(gone []string) {
	if len(gone) == 0 {
		return
	}
	are := make(map[string]bool, len(gone))
	for _, id := range gone {
		are[id] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids = slices.DeleteFunc(slices.Clone(p.ids), func(id string) bool { return are[id] })
}
