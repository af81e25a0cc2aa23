package holdfast

// RedLock is wip.
type RedLock struct {
	Locker
	kinds   []*kind
	invalid error
}

// NewRedLock is wip.
func NewRedLock(lockers ...Locker) *RedLock { return &RedLock{invalid: ErrInvalidOption} }
func (r *RedLock) Name() string             { return "" }
