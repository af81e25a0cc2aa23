package holdfast

import "context"

// lock is what every kind of lock can do that is one lock in Redis. The kinds say what that means for them.
type lock struct {
	handle handle
}

// Name returns the lock's name.
func (l *lock) Name() string { return l.handle.Name }

// acquire is Lock, and try is TryLock.
func (l *lock) acquire(ctx context.Context, options []LockOption) (*Hold, error) {
	cfg := configOf(options)
	return l.handle.acquire(ctx, Owner{}, &cfg)
}

func (l *lock) try(ctx context.Context, options []TryOption) (*Hold, error) {
	cfg := toTry(options)
	return l.handle.acquire(ctx, Owner{}, &cfg)
}

func (l *lock) adopt(ctx context.Context, owner Owner, options []TryOption) (*Hold, error) {
	if owner.IsZero() {
		return nil, invalid("owner: there is nothing to adopt of the zero Owner")
	}
	if err := owner.checkNumbered(); err != nil {
		return nil, err
	}
	cfg := toTry(options)
	return l.handle.acquire(ctx, owner, &cfg)
}

// inspect returns the state with all holders.
func (l *lock) inspect(ctx context.Context) (State, error) {
	found, _, err := inspectState(ctx, &l.handle, l.handle.made().HoldRequests().Inspect())
	return found, err
}

// side is the lock, for force.
func (l *lock) side() side { return side{&l.handle, l.handle.made().HoldRequests()} }

// oneHandle returns the lock's handle. Only locks of one client have this method: see handleOf.
func (l *lock) oneHandle() *handle { return l.handle.made() }

// handleOf returns the handle of a Locker that is one lock of one client, else nil.
func handleOf(l Locker) *handle {
	if one, ok := l.(interface{ oneHandle() *handle }); ok {
		return one.oneHandle()
	}
	return nil
}
