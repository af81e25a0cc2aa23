package holdfast

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// MaxBundle is how many permits one hold can have.
const MaxBundle = 4096

// PermitSemaphore is a semaphore whose permits have leases, like locks: the
// watchdog renews them, their holder is told of their loss, and those of a
// process that has crashed are available again when their lease has run out. Get
// one from [Client.NewPermitSemaphore]. All methods are safe for concurrent use.
//
// It has permits once [PermitSemaphore.TrySetPermits] or another has set how
// many; until then nobody acquires any. Who waits for many is not overtaken for
// ever by those who want few: the first who is refused is stood back for, by
// everybody who uses holdfast. That keeps others from permits that they
// could have for ten seconds at a stretch, and then not for as long.
//
// In Redis the number of available permits stands at its name, and the held
// ones at {name}:timeout, a sorted set of 16 random bytes a permit and the server
// time, in ms, at which it expires. Permits are announced on redisson_sc:{name}.
// Our own are holdfast_next:{name}, for whom others stand back, and
// holdfast_calls:{name}, the calls that have set or added permits lately; both
// expire. Redisson: RPermitExpirableSemaphore, which takes the time of whichever
// client asks.
type PermitSemaphore struct {
	object
}

var _ Locker = (*PermitSemaphore)(nil)

// NewPermitSemaphore returns the semaphore of the given name. It does no I/O.
// What a name can be is said at [Client.NewMutex]. A plain [Semaphore] of the
// same name would be another thing on the same key. Redisson:
// getPermitExpirableSemaphore.
func (c *Client) NewPermitSemaphore(name string) *PermitSemaphore {
	k := newKind(c, name, "permits", nil, mutexConfig{})
	return &PermitSemaphore{object{client: c, kind: k, keys: []string{name, protocol.PermitsKey(name)}, size: protocol.Permits{Name: name}.Size()}}
}

// Lock acquires one permit, waiting for it if it must: [PermitSemaphore.Acquire]
// of one. Redisson: acquire.
func (s *PermitSemaphore) Lock(ctx context.Context, options ...LockOption) (*Hold, error) {
	return s.Acquire(ctx, 1, options...)
}

// TryLock acquires one permit if one is available now. Redisson: tryAcquire.
func (s *PermitSemaphore) TryLock(ctx context.Context, options ...LockOption) (*Hold, error) {
	return s.TryAcquire(ctx, 1, options...)
}

// Acquire acquires n permits as one hold, all or none, and waits until they are
// available, ctx ends, or [Wait] runs out. Of one process, those who wait for the
// same number come first, first served. While one that was refused waits, others
// do not take permits that it needs, for ten seconds at a stretch, and not at all
// if it wants more than there are.
//
// Each call is an acquisition of its own, also under the context of a hold:
// permits are not reentrant. Without [Lease] the watchdog renews the hold, and with
// it, it lasts as long as the first of its permits does. If somebody gives some of
// them back by their ids, it goes on with the others, and is lost with the last one.
// [Hold.Unlock] gives back all that are left.
//
// The error is as Lock's of any kind; it matches [ErrNoPermits] and [ErrLocked] if
// too few were available, as a [*PermitsError] that says why, and [ErrInvalidCount]
// if n is not between 1 and [MaxBundle].
// Redisson: acquire(permits), whose acquire(0) waits for ever.
func (s *PermitSemaphore) Acquire(ctx context.Context, n int, options ...LockOption) (*Hold, error) {
	return s.acquire(ctx, n, false, options)
}

// TryAcquire is Acquire without waiting. Redisson: tryAcquire(permits).
func (s *PermitSemaphore) TryAcquire(ctx context.Context, n int, options ...LockOption) (*Hold, error) {
	return s.acquire(ctx, n, true, options)
}

func (s *PermitSemaphore) acquire(ctx context.Context, n int, oneTry bool, options []LockOption) (*Hold, error) {
	if err := checkCount(s.kind.name, n, 1, MaxBundle); err != nil {
		return nil, err
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = newID()
	}
	k := newKind(s.client, s.kind.name, "permits "+ids[0], permitBundle{
		Bundle: protocol.Bundle{Permits: s.protocol(), IDs: ids}, left: &permitSet{ids: ids},
	}, mutexConfig{})
	k.queue, k.shared, k.holderChannel = queueFor(s.kind, n), true, protocol.PermitsChannel(s.kind.name)
	k.refusal = noPermits(s.kind.name, n)
	return s.client.acquire(ctx, k, oneTry, options)
}

// IDs returns the ids of a hold's permits, 32 hexadecimal digits each, for another
// program to know or release them by; nil if the hold is not one of this
// semaphore. One that was given back by its id is among them until the holder has
// noticed, as it notices a forced unlock. Of a lost hold, they are those that it had
// when it was last known to be held. Redisson: what acquire returns.
func (s *PermitSemaphore) IDs(h *Hold) []string {
	one, ok := h.held.(*single)
	if !ok {
		return nil
	}
	b, ok := one.owned.kind.lock.(permitBundle)
	if !ok || b.Name != s.kind.name {
		return nil
	}
	left := b.left.all()
	ids := make([]string, len(left))
	for i, id := range left {
		ids[i] = hex.EncodeToString([]byte(id))
	}
	return ids
}

// Release gives permits back by their ids, whoever acquired them, all or none. Their
// hold goes on with those that are left, and is lost if none is. Its holder notices
// as it notices [PermitSemaphore.ForceUnlock]; until then, more may believe that they
// have a permit than there are. The error matches [ErrNotHeld] if one of them is not
// held, or its lease has ended: it is available then already. It matches
// [ErrInvalidOwner] if an id cannot be read, or as those of [Hold.Extend].
// Redisson: release, which gives a permit back after its lease has ended and
// reports an error all the same.
func (s *PermitSemaphore) Release(ctx context.Context, ids ...string) error {
	raw, err := rawIDs(ids)
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return checkCount(s.kind.name, 0, 1, MaxBundle)
	}
	o, err := s.ask(ctx, "release", s.protocol().GiveBack(raw))
	s.client.pokeHolders(s.kind)
	if err != nil {
		return err
	}
	if o.Reply.Code != script.Done && len(o.Unknown) == 0 { // else an earlier attempt may have given them back
		return problem(s.kind.name, "a permit to release is not held", ErrNotHeld)
	}
	return nil
}

// UpdateLease makes a permit live for at least d from now, whoever acquired it. It
// shortens no lease, since its holder relies on it, but gives one an end that
// has none, as Redisson's can be. The deadline of its hold moves with it as soon as
// the holder notices, but not beyond [WithMaxHold]; that of a hold of several permits
// is when the first of them ends. The errors are Release's, and [ErrInvalidLease].
// Redisson: updateLeaseTime, which shortens, too.
func (s *PermitSemaphore) UpdateLease(ctx context.Context, id string, d time.Duration) error {
	d, err := checkLease(d)
	if err != nil {
		return err
	}
	if _, err = s.lease(ctx, id, d); err == nil {
		s.client.pokeHolders(s.kind)
	}
	return err
}

// LeaseOf returns how long a permit is held unless it is renewed, -1 for ever. The
// errors are Release's. Redisson: getLeaseTime.
func (s *PermitSemaphore) LeaseOf(ctx context.Context, id string) (time.Duration, error) {
	return s.lease(ctx, id, 0)
}

func (s *PermitSemaphore) lease(ctx context.Context, id string, d time.Duration) (time.Duration, error) {
	raw, err := rawIDs([]string{id})
	if err != nil {
		return 0, err
	}
	o, err := s.ask(ctx, "renew", s.protocol().Lease(raw[0], d))
	if err != nil {
		return 0, err
	}
	if o.Reply.Code != script.Done {
		return 0, problem(s.kind.name, "the permit is not held", ErrNotHeld)
	}
	left, err := o.Reply.Int(0)
	if err != nil || left < 0 {
		return -1, err
	}
	return time.Duration(left) * time.Millisecond, nil
}

// TrySetPermits sets how many permits there are, if that was never set, and
// reports whether it was not. Errors match [ErrInvalidCount] if n is not between
// 0 and [MaxCount], or are as those of [Hold.Extend]; after a [*BackendError] that
// says MayHaveRun it may have been set. Redisson: trySetPermits.
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
	if err := checkCount(s.kind.name, n, 0, MaxCount); err != nil {
		return false, err
	}
	o, err := s.ask(ctx, "set", s.protocol().Set(s.client.once(), n, always))
	return o.Reply.Code == script.Done, err
}

// AddPermits makes delta permits more available, or fewer if it is negative; of
// those that are held, none is taken away, and the number of available ones may
// fall below 0. The errors are TrySetPermits's. Redisson: addPermits.
func (s *PermitSemaphore) AddPermits(ctx context.Context, delta int) error {
	if err := checkCount(s.kind.name, delta, -MaxCount, MaxCount); err != nil {
		return err
	}
	_, err := s.ask(ctx, "set", s.protocol().Add(s.client.once(), delta))
	return err
}

// Available returns how many permits are available now. It asks the primary, as
// do the other questions. Redisson: availablePermits.
func (s *PermitSemaphore) Available(ctx context.Context) (int, error) {
	free, _, err := s.count(ctx)
	return free, err
}

// Acquired returns how many permits are held. Redisson: acquiredPermits.
func (s *PermitSemaphore) Acquired(ctx context.Context) (int, error) {
	_, held, err := s.count(ctx)
	return held, err
}

// Permits returns how many permits there are, available and held. Redisson:
// getPermits.
func (s *PermitSemaphore) Permits(ctx context.Context) (int, error) {
	free, held, err := s.count(ctx)
	return free + held, err
}

func (s *PermitSemaphore) count(ctx context.Context) (free, held int, err error) {
	o, err := s.ask(ctx, "inspect", s.protocol().Count())
	if err != nil {
		return 0, 0, err
	}
	one, err1 := o.Reply.Int(0)
	two, err2 := o.Reply.Int(1)
	if err1 != nil || err2 != nil {
		return 0, 0, misread(s.kind.name, fmt.Errorf("%w, %w", err1, err2))
	}
	return int(one), int(two), nil
}

// Inspect returns how the semaphore stands in Redis: each permit that is held is
// a holder, with its id as the owner. Redisson has no counterpart.
func (s *PermitSemaphore) Inspect(ctx context.Context) (Inspection, error) {
	return s.client.fetchState(ctx, s.kind, s.protocol().Inspect())
}

// ForceUnlock takes every permit from whoever holds it, announces that, and
// reports whether any was held. A holder's context ends with [ErrLost]: at once if
// it belongs to this client, within 100 ms if it has held its permits for a second
// and hears the announcement, and at its next renewal otherwise. Until then more may
// believe that they have a permit than there are; this is a tool for operators.
// Redisson has no counterpart.
func (s *PermitSemaphore) ForceUnlock(ctx context.Context) (bool, error) {
	return s.client.force(ctx, s.kind, s.protocol())
}

func (s *PermitSemaphore) protocol() protocol.Permits { return protocol.Permits{Name: s.kind.name} }

func (s *PermitSemaphore) ask(ctx context.Context, op string, ask script.Request) (call.Result, error) {
	return s.client.ask(ctx, s.kind, op, ask)
}

// rawIDs reads permits' ids as people write them.
func rawIDs(ids []string) ([]string, error) {
	all := make([]string, len(ids))
	for i, id := range ids {
		raw, err := hex.DecodeString(id)
		if err != nil || len(raw) != 16 {
			return nil, fmt.Errorf("holdfast: %w: %.40q is not the id of a permit, 32 hexadecimal digits",
				ErrInvalidOwner, id)
		}
		all[i] = string(raw)
	}
	return all, nil
}

// permitBundle asks for the permits of one acquisition: its count is one if they are held.
type permitBundle struct {
	protocol.Bundle

	left *permitSet // which of them are held, as far as is known
}

// Renew asks about those that are left.
func (b permitBundle) Renew(_ string, _ int, ttl time.Duration) script.Request {
	return protocol.Bundle{Permits: b.Permits, IDs: b.left.all()}.Renew("", 0, ttl)
}

// ReadRenewal takes note of those that are not held any more.
func (b permitBundle) ReadRenewal(r script.Reply, i int) (protocol.Renewal, error) {
	found, err := b.Bundle.ReadRenewal(r, i)
	if found.Count > 0 {
		b.left.drop(found.Missing)
	}
	return found, err
}

// permitSet is a set of permits that only becomes smaller.
type permitSet struct {
	mu  sync.Mutex
	ids []string // raw; replaced, not changed
}

func (p *permitSet) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids
}

func (p *permitSet) drop(gone []string) {
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
