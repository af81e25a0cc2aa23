package holdfast

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"
	"time"
)

// MultiLock is several locks as one. One from [NewMultiLock] is held while all of them are, and its Lock acquires all or
// none; one from [NewRedLock] is held while more than half of them are. In Redis there are only its parts. Redisson:
// RedissonMultiLock, which RedissonRedLock is, too.
type MultiLock struct {
	name    string
	label   string // for hooks
	parts   []part // in the order in which they are asked for, or side by side
	need    int    // how many parts have to live
	invalid error  // why it cannot be used, or nil
	// independent says that each part is on a server of its own, which may be away: all
	// are asked side by side, and need of them decide.
	independent bool
}

var _ Locker = (*MultiLock)(nil)

// made returns the multi-lock. It panics if that is a zero value.
func (m *MultiLock) made() *MultiLock {
	if m.label == "" {
		panic("holdfast: this MultiLock is a zero value; make one with NewMultiLock or NewRedLock")
	}
	return m
}

// part is one lock of several.
type part struct {
	Locker
	// handle is its own; nil if it is not one lock of one client: one from [NewRedLock],
	// or a Locker from elsewhere.
	handle *handle
	// tied says that the one before it cannot be told from it by name, as with
	// locks of one name on two servers: another process may have the two in the
	// other order.
	tied bool
}

// NewMultiLock returns several locks as one: of any kinds and clients, other multi-locks and those from NewRedLock
// included. It does no I/O. They are acquired in the order of their names, and of one name those that exclude others
// before those that are shared. So two processes that want the same locks do not wait for each other; a hold under whose
// context another is acquired must follow that order by itself. A multi-lock in a multi-lock counts as its parts, and a
// lock that is given twice as one; but a [PermitSemaphore] counts as often as it is given.
//
// Without a lock, with one that is nil, or with two kinds of one name and client, every call returns [ErrInvalid].
// Redisson: RedissonClient.getMultiLock.
func NewMultiLock(lockers ...Locker) *MultiLock {
	m := newMultiLock("multi", "a multi-lock", lockers, (*MultiLock).add)
	m.need = len(m.parts)
	slices.SortStableFunc(m.parts, part.compare)
	names := make([]string, len(m.parts))
	for i, p := range m.parts {
		names[i] = p.Name()
		m.parts[i].tied = i > 0 && p.compare(m.parts[i-1]) == 0
		if i > 0 && p.contradicts(m.parts[i-1]) {
			m.refuse("a multi-lock of two kinds of lock with one name")
		}
	}
	m.name = strings.Join(names, "+")
	return m
}

// newMultiLock returns several locks as one; add adds one of them. For errors it is called what.
func newMultiLock(label, what string, lockers []Locker, add func(*MultiLock, Locker)) *MultiLock {
	m := &MultiLock{label: label}
	if len(lockers) == 0 {
		m.refuse(what + " of no locks")
	}
	for _, l := range lockers {
		if v := reflect.ValueOf(l); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			m.refuse(what + " of a lock that is nil")
		} else {
			add(m, l)
		}
	}
	return m
}

// add adds a locker's parts, unless they are there already.
func (m *MultiLock) add(l Locker) {
	if several, ok := l.(*MultiLock); ok {
		m.invalid = cmp.Or(m.invalid, several.made().invalid)
		if !several.independent {
			for _, p := range several.parts {
				m.add(p.Locker)
			}
			return
		}
	}
	p := part{Locker: l, handle: handleOf(l)}
	if !slices.ContainsFunc(m.parts, p.same) {
		m.parts = append(m.parts, p)
	}
}

// refuse notes why it cannot be used.
func (m *MultiLock) refuse(reason string) {
	m.invalid = cmp.Or(m.invalid, invalid("argument: %s", reason))
}

// compare puts parts in order. All that it goes by is the same in every process.
func (p part) compare(q part) int {
	rank, namespace := p.rank()
	qRank, qNamespace := q.rank()
	return cmp.Or(cmp.Compare(p.Name(), q.Name()), cmp.Compare(rank, qRank), cmp.Compare(namespace, qNamespace))
}

// rank puts what excludes others before what is shared: for writing before for
// reading.
func (p part) rank() (rank int, namespace string) {
	switch {
	case p.handle == nil:
		return 2, ""
	case p.handle.Shared:
		return 1, p.handle.Namespace
	default:
		return 0, p.handle.Namespace
	}
}

// same reports whether two parts are one lock.
func (p part) same(q part) bool {
	if p.handle == nil || q.handle == nil {
		several, ok := p.Locker.(*MultiLock)
		return ok && q.Locker == Locker(several)
	}
	return p.handle.client == q.handle.client && p.compare(q) == 0
}

// contradicts reports whether two parts are of kinds that may not share a name.
func (p part) contradicts(q part) bool {
	return p.handle != nil && q.handle != nil && p.handle.client == q.handle.client && p.Name() == q.Name() && p.handle.Namespace != q.handle.Namespace
}

// Name returns the names of its locks, in the order in which they are acquired,
// with a + between them. Of one from [NewRedLock] it is each name once.
func (m *MultiLock) Name() string { return m.name }

// Lock acquires every lock, one after another in the order of the name, waiting until all are acquired, ctx ends, or
// [Wait] runs out. Acquired parts are renewed meanwhile. Those of one client have one owner, unless ctx is that of a hold
// of one of them. Lock of any under the hold's context is reentrant.
//
// The hold stands for all. Its context ends with a [*LostError] as soon as one is lost; its deadline is the earliest;
// Extend and Unlock do it to all at once, and return every error; its token is 0, those of the locks are in [Hold.Parts].
// A [FixedLease] starts when all are acquired. The clients' hooks are told of each lock, those of [WithHooks] among the
// options of the whole.
//
// If Lock returns an error, the caller holds nothing more than before; locks already acquired are released, in the
// background if necessary. The errors are those of the lock that could not be acquired. If one is lost while others are
// waited for, Lock starts over. For a lock from [NewRedLock] see there. Redisson: RedissonMultiLock.lock,
// lockInterruptibly, and tryLock with a wait time.
func (m *MultiLock) Lock(ctx context.Context, options ...LockOption) (*Hold, error) {
	return m.acquire(ctx, configOf(options))
}

// TryLock is Lock without waiting: it asks once for each lock, and gives back what it has got when one is refused. Each
// question takes as long as that lock's own TryLock at most, and giving back as long as the client's timeout. Redisson:
// RedissonMultiLock.tryLock without a wait time.
func (m *MultiLock) TryLock(ctx context.Context, options ...TryOption) (*Hold, error) {
	return m.acquire(ctx, toTry(options))
}

// Inspect returns how all of its locks stand in Redis, asking for each once, side by side. A lock that is not of this
// package cannot be inspected: [ErrInvalid]. The other errors are those of [Mutex.Inspect].
func (m *MultiLock) Inspect(ctx context.Context) (State, error) {
	if m.made().invalid != nil {
		return State{}, m.invalid
	}
	state := State{Name: m.name, need: m.need, Parts: make([]State, len(m.parts))}
	errs := sideBySide(len(m.parts), func(i int) (err error) {
		one, ok := m.parts[i].Locker.(interface {
			Inspect(ctx context.Context) (State, error)
		})
		if !ok {
			return invalid("part: %q cannot be inspected", m.parts[i].Name())
		}
		state.Parts[i], err = one.Inspect(ctx)
		return err
	})
	if err := joinOnce(errs...); err != nil {
		return State{}, err
	}
	ttls := make([]time.Duration, len(m.parts))
	for i, part := range state.Parts {
		ttls[i] = part.TTL
	}
	state.TTL = reachedBy(ttls, m.need)
	return state, nil
}

// handles are those of all its parts.
func (m *MultiLock) handles() []*handle {
	var all []*handle
	for _, p := range m.parts {
		if several, ok := p.Locker.(*MultiLock); ok {
			all = append(all, several.handles()...)
		} else if p.handle != nil {
			all = append(all, p.handle)
		}
	}
	return all
}

// acquire is Lock and TryLock.
func (m *MultiLock) acquire(ctx context.Context, config lockConfig) (*Hold, error) {
	a, err := newCompositeAcquire(ctx, m, config)
	if err != nil {
		return nil, err
	}
	bound, stop := a.bound()
	defer stop()
	return a.acquire(bound)
}
