package holdfast

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// State is how a lock, a semaphore or a latch stood in Redis at one moment. It is what
// Inspect returns; ask it, not Redis again. What a kind does not have is zero.
type State struct {
	// Name is the name of the lock; of several locks, that of the [MultiLock].
	Name string
	// Holders are who holds it; none if it is free. Each permit that is held is one, with its id as the owner. Of
	// readers there are the first 10,000. Those of several locks are in Parts.
	Holders []Holder
	// TTL is how long the key lives unless it is renewed, 0 if there is none, and [NoExpiry] if it does not expire, as is
	// usual for semaphores and latches. Of several locks, it is how long enough of them live.
	TTL time.Duration
	// Waiters are who stands in line, in order: the first thousand, of a [Mutex], an [RWMutex] or a [PermitSemaphore]. A
	// fair mutex has all who wait there; of others each process has one, of an RWMutex one for each side, and with
	// [Polling] none.
	Waiters []Owner
	// Token is the last fencing token, of a lock that is [Fenced].
	Token int64
	// Permits is how many permits a [PermitSemaphore] has, available and held.
	Permits int
	// Available is how many permits of a semaphore can be had now. It is below 0 if more are held than there are.
	Available int
	// Remaining is the count of a [Latch].
	Remaining int
	// Parts are the states of several locks: of a [MultiLock] in the order of its name, of one from [NewRedLock] as they
	// were given to it.
	Parts []State

	need int // how many parts count; 0: it is one lock
}

// Holder is one owner that holds a lock.
type Holder struct {
	// Owner is the holder, of this or any other client.
	Owner Owner
	// Mode is [ModeRead] or [ModeWrite] for a read-write lock, and empty otherwise.
	Mode string
	// Count is how often it holds the lock.
	Count int
	// TTL is how long it holds the lock unless that is renewed; [NoExpiry] for ever.
	TTL time.Duration
	// Who identifies the holder's client, for people; zero if that is not known, or the client that asked has [WithoutIdentity].
	Who Identity
	// HeldFor is for how long it has held the lock, by the server's clock. It is 0 for the first second, and if it is not
	// known.
	HeldFor time.Duration
}

// Locked reports whether anybody held the lock, or had a permit; of several locks,
// whether enough of them were held. Redisson: isLocked, which may ask replicas.
func (s State) Locked() bool {
	if s.need == 0 {
		return len(s.Holders) > 0
	}
	held := 0
	for _, part := range s.Parts {
		if part.Locked() {
			held++
		}
	}
	return held >= s.need
}

// HeldBy reports whether owner held the lock. Redisson: isHeldByThread.
func (s State) HeldBy(owner Owner) bool { return s.Count(owner) > 0 }

// Count returns how often owner held the lock: of a read-write lock its reads and writes together, and its reads alone if
// the state is [RLocker.Inspect]'s; of several locks how often it held enough of them, 0 if those are of several clients.
// Redisson: getHoldCount.
func (s State) Count(owner Owner) (count int) {
	if s.need > 0 {
		counts := make([]int, len(s.Parts))
		for i, part := range s.Parts {
			counts[i] = part.Count(owner)
		}
		return reachedBy(counts, s.need)
	}
	for _, h := range s.Holders {
		if h.Owner == owner {
			count = int(protocol.Sum(int64(count), int64(h.Count)))
		}
	}
	return count
}

// expiry makes [NoExpiry] of a time to live without an end.
func expiry(ttl time.Duration) time.Duration {
	if ttl < 0 {
		return NoExpiry
	}
	return ttl
}

// reachedBy is the greatest value that at least need of each reach.
func reachedBy[T cmp.Ordered](each []T, need int) T {
	slices.Sort(each)
	return each[len(each)-need]
}

// fetchState reads the state of a lock, or of what has a number, from Redis.
func fetchState(ctx context.Context, l *handle, request script.Request) (State, int, error) {
	res, err := l.invoke(ctx, "inspect", request)
	if err != nil {
		return State{}, 0, err
	}
	found, err := protocol.ReadState(res.Reply)
	if err != nil {
		return State{}, 0, misread("inspect", l.Name, err)
	}
	state := State{Name: l.Name, TTL: expiry(found.TTL), Token: found.Token}
	for _, w := range found.Waiters {
		owner, writes := strings.CutSuffix(w, protocol.WriterField(""))
		if l.Mode != ModeRead || !writes {
			state.Waiters = append(state.Waiters, Owner{owner})
		}
	}
	for _, h := range found.Holders {
		state.Holders = append(state.Holders, Holder{Owner: Owner{h.Owner}, Mode: h.Mode, Count: h.Count, TTL: expiry(h.TTL)})
	}
	return state, found.Number, nil
}

// inspectState is fetchState for a user, with who the holders are.
func inspectState(ctx context.Context, l *handle, request script.Request) (State, int, error) {
	state, number, err := fetchState(ctx, l, request)
	if err == nil {
		l.client.introduce(ctx, &state)
	}
	return state, number, err
}

// takeable is what can be asked for who holds it, and taken from them.
type takeable interface {
	Inspect() script.Request
	Force(holders []string) script.Request
}

// side is one side of a lock, or all of it.
type side struct {
	*handle
	takeable
}

// holdersIn are those of some owners who hold it; of no owners in particular, all who do.
func (s side) holdersIn(found State, of []Owner) (owners []string) {
	for _, h := range found.Holders {
		if (s.Mode == "" || h.Mode == s.Mode) && (len(of) == 0 || slices.Contains(of, h.Owner)) {
			owners = append(owners, h.Owner.text)
		}
	}
	return owners
}

// inCrowd are whom to take it from if more read than were named: some owners, whether they were or not, or all.
func (s side) inCrowd(found State, of []Owner) (owners []string) {
	if len(of) == 0 {
		return append(s.holdersIn(found, nil), protocol.Everybody)
	}
	for _, owner := range of {
		owners = append(owners, owner.text)
	}
	return owners
}

// force takes a lock, or one side of it, from those of some owners who hold it, or from whoever does if none are named,
// with what they hold of other sides, and reports whether anybody did. It asks who that is first, so that a delayed
// attempt does not hit the next holder.
func force(ctx context.Context, s side, from []Owner, others ...side) (bool, error) {
	ctx, stop := engine.WithTimeout(ctx, s.Engine.Timeout)
	defer stop()
	for range 20 {
		found, _, err := fetchState(ctx, s.handle, s.Inspect())
		if err != nil {
			return false, err
		}
		holders := s.holdersIn(found, from)
		if s.Mode == ModeRead && len(found.Holders) >= protocol.Crowd { // not all are named
			holders = s.inCrowd(found, from)
		}
		if len(holders) == 0 {
			return false, nil
		}
		taken := false
		var untold error
		for _, each := range append(others, s) {
			theirs := holders
			if each.handle != s.handle {
				theirs = slices.DeleteFunc(each.holdersIn(found, from), func(owner string) bool { return !slices.Contains(holders, owner) })
			}
			if len(theirs) == 0 {
				continue
			}
			did, err := each.forceFrom(ctx, theirs)
			if err != nil && !lockerr.IsUntold(err) {
				return taken, err
			}
			taken, untold = taken || did, cmp.Or(untold, err)
		}
		if taken {
			return true, untold
		}
		// The holder has left by itself; another may have come.
	}
	return false, lockerr.Problem(s.Name, "it changes hands faster than it can be taken away", ErrLocked)
}

// forceFrom takes one side from these holders, and reports whether any of them may have held it.
func (s side) forceFrom(ctx context.Context, holders []string) (bool, error) {
	res, err := s.invoke(ctx, "force", s.Force(holders))
	if err != nil && !lockerr.IsUntold(err) {
		return false, err
	}
	s.Recheck()
	// One that is still on its way could hit the same owner's next hold.
	s.Engine.Calls.Outlast(ctx, res.Unknown)
	// If an attempt was lost, the one that was answered may have found its work done.
	return res.Reply.Code == script.Done || len(res.Unknown) > 0, err
}
