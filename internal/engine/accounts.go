package engine

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// accounts are those of one client. An account is in one of the two maps.
type accounts struct {
	mu    sync.Mutex
	fresh map[int64]*account      // of owners that acquires have made, by number
	known map[accountKey]*account // of owners that were set by hand
}

func newAccounts() accounts {
	return accounts{fresh: map[int64]*account{}, known: map[accountKey]*account{}}
}

// each calls f with every account, under mu.
func (s *accounts) each(f func(*account)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.fresh {
		f(a)
	}
	for _, a := range s.known {
		f(a)
	}
}

// add adds an account, of an owner that its call has made if fresh is set. Otherwise it returns the account that there is already, if
// there is one; nil if the owner belongs to another call.
func (s *accounts) add(a *account, fresh bool) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !fresh {
		return s.byHand(a)
	}
	s.fresh[numberOf(a.owner)] = a
	return a
}

// byHand returns the account of an owner who was set by hand: if there is none, a. It is nil if the owner is another call's
// own. mu is held.
func (s *accounts) byHand(a *account) *account {
	key, number := a.key(), numberOf(a.owner)
	found := s.known[key]
	if made := s.fresh[number]; made != nil && made.key() == key {
		found = made
	}
	switch {
	case found == nil:
		found = a
	case !found.disclosed():
		return nil
	default:
		found.refs.Add(1)
		if s.fresh[number] == found {
			delete(s.fresh, number)
		}
	}
	s.known[key] = found
	return found
}

// drop drops an account, unless somebody needs it.
func (s *accounts) drop(a *account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.refs.Load() > 0 { // somebody has found it meanwhile
		return
	}
	if number := numberOf(a.owner); s.fresh[number] == a {
		delete(s.fresh, number)
	} else if s.known[a.key()] == a {
		delete(s.known, a.key())
	}
}

// owners makes the owners of one client: its UUID and a number.
type owners struct {
	client      string       // its UUID
	made, given atomic.Int64 // how many owners acquires have made, and NewOwner has
	kept        atomic.Int64 // how many locks MinHold has kept
}

// NewOwner returns an owner that nobody else has: for a user, who may set it for any lock. Its number is even; the owners
// that acquires make have odd ones.
func (o *owners) NewOwner() string { return o.owner(2 * o.given.Add(1)) }

// nobody returns an owner as whom MinHold keeps a lock: see [protocol.Kept].
func (o *owners) nobody() string { return o.owner(-o.kept.Add(1)) }

// freshOwner returns an owner for one acquire, which nobody knows.
func (o *owners) freshOwner() string { return o.owner(2*o.made.Add(1) - 1) }

func (o *owners) owner(number int64) string {
	var room [64]byte // client is a UUID
	return string(strconv.AppendInt(append(append(room[:0], o.client...), ':'), number, 10))
}

// owns reports whether an owner is one of this client's.
func (o *owners) owns(owner string) bool {
	client, _, _ := strings.Cut(owner, ":")
	return client == o.client
}

// hasMade reports whether an owner of this client was made by it. Of another one an acquire might think that it is new.
func (o *owners) hasMade(owner string) bool {
	n, last := numberOf(owner), 2*o.given.Load()
	if n%2 != 0 {
		last = 2*o.made.Load() - 1
	}
	return n > 0 && n <= last
}

// numberOf is the number of an owner; 0 if it has none.
func numberOf(owner string) int64 {
	n, err := strconv.ParseInt(owner[strings.IndexByte(owner, ':')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
