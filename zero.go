package holdfast

// Panic messages of the methods of zero values, which belong to no client.
const (
	zeroClient = "holdfast: this Client is a zero value; make one with New"
	zeroLock   = "holdfast: this lock, semaphore or latch is a zero value; make one with a method of a Client, such as NewMutex"
	zeroMulti  = "holdfast: this MultiLock is a zero value; make one with NewMultiLock or NewRedLock"
	zeroHold   = "holdfast: this Hold is a zero value; make one with Lock or TryLock"
)

// made returns the handle. It panics if the lock is a zero value.
func (l *handle) made() *handle {
	if l.client == nil {
		panic(zeroLock)
	}
	return l
}

// made returns the multi-lock. It panics if that is a zero value.
func (m *MultiLock) made() *MultiLock {
	if m.label == "" {
		panic(zeroMulti)
	}
	return m
}

// made returns the hold's core. It panics if the hold is a zero value.
func (h *Hold) made() core {
	if h.core == nil {
		panic(zeroHold)
	}
	return h.core
}
