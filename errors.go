package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// The texts of errors escape what a terminal obeys or a reader does not see, in names, in owners and in what servers say: \x1b, \u202e.
// What errors wrap, and their fields, are as they came.
//
// Sentinels for [errors.Is]. ErrLocked means that another owner holds the lock, a [*BackendError] that Redis failed or refused.
// An error that matches the context's own means that the context ended; [errors.As] then finds the [*LockedError], if another owner
// held the lock, or the *BackendError, if Redis was failing or silent.
var (
	// ErrLocked: another owner holds the lock. [*LockedError] says which.
	ErrLocked = lockerr.Locked
	// ErrNoPermits: too few permits of a semaphore are available. It comes as a [*PermitsError], which says why, and
	// matches ErrLocked, too.
	ErrNoPermits = lockerr.NoPermits
	// ErrLost: the lock was held and is not any more, or cannot be trusted any more. [*LostError] says why, and is the
	// cause of the context of a lost hold.
	ErrLost = lockerr.Lost
	// ErrNotHeld: the owner does not hold the lock. An Unlock that finds the lock gone matches ErrLost, too; a second
	// Unlock of one hold does not.
	ErrNotHeld = lockerr.NotHeld
	// ErrReentrant: the owner holds the lock already and cannot have it once more: it is [NonReentrant], or held for
	// reading and wanted for writing. Or a hold cannot be detached or adopted, because its owner has others of the lock.
	ErrReentrant = lockerr.Reentrant
	// ErrOtherKind: what stands in Redis at the name is another kind of object, or of lock. The error is a
	// [*BackendError], too; the call had no effect.
	ErrOtherKind = lockerr.OtherKind
	// ErrUntold: the call has had its effect, but Redis did not let the user publish, so those who wait are not told.
	// holdfast's ask within three seconds, Redisson's when the lease would have ended. docs/acl.md lists the rights.
	ErrUntold = lockerr.Untold
	// ErrNotReplicated: fewer replicas than [WithReplicaAck] asks for have acknowledged the acquire in time. It is given
	// back.
	ErrNotReplicated = lockerr.NotReplicated
	// ErrClosed: the client is closed, or was closed during the call. What was under way then may have had its effect; that of an
	// acquire is undone.
	ErrClosed = lockerr.Closed
	// ErrNotZero: a latch's count had not come to zero when [Wait] ran out.
	ErrNotZero = lockerr.NotZero
	// ErrInvalid: a name, an option, a lease, a count or an owner is invalid, as the text says; or the owner is another
	// client's, or its hold was detached. Nothing was sent.
	ErrInvalid = lockerr.Invalid
)

// LockedError says who holds a lock that was not acquired. It matches
// [ErrLocked]. What it says was true at the last answer from Redis.
type LockedError struct {
	// Name is the lock's name.
	Name string
	// Holder is the owner that holds it. It is zero if the lock is free, but others are ahead in a fair line; and if the
	// holder is not known, since others of this process were ahead and Redis has not been asked yet.
	Holder Owner
	// TTL is how long the lock lives unless it is renewed; [NoExpiry] if it does not expire, and 0 if it is not known.
	TTL time.Duration
	// Who is the holder's client, for people, and HeldFor how long it has held the lock, as far as that is known: see
	// [Holder]. Both are zero if the holder's client or the one that was refused has [WithoutIdentity]. At most ten refusals
	// a second look them up.
	Who     Identity
	HeldFor time.Duration

	own bool // the holder is a call of the client that asked
}

func (e *LockedError) Error() string {
	return visible.Text(fmt.Sprintf("holdfast: %q: %s", e.Name, e.reason()))
}

// reason is what stands behind the name.
func (e *LockedError) reason() string {
	text, kept := ErrLocked.Error(), protocol.Kept(e.Holder.text)
	switch {
	case e.Holder.IsZero():
		return text
	case e.own && !kept:
		text = "held by another call of this client"
	default:
		who := e.Who.String()
		if e.Who.IsZero() {
			who = e.Holder.shown()
		}
		if text += ": "; kept {
			text += "kept by MinHold of "
		}
		text += who
	}
	if e.HeldFor > 0 {
		text += ", for " + rounded(e.HeldFor)
	}
	switch {
	case e.TTL == NoExpiry:
		text += ", without an end; if the holder is gone, use ForceUnlock"
	case e.TTL > 0 && kept:
		text += ", " + rounded(e.TTL) + " more"
	case e.TTL > 0:
		text += ", at most " + rounded(e.TTL) + " more unless renewed"
	}
	if e.own && !kept {
		text += "; to nest in it, lock with the context of its hold"
	}
	return text
}

// rounded is a duration as people say it.
func rounded(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	}
	return d.String()
}

// Is reports whether target is [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// PermitsError says why permits of a semaphore were not acquired. It matches
// [ErrNoPermits] and [ErrLocked], and is a [*LockedError] for [errors.As] as well. What
// it says was true at the last answer from Redis.
type PermitsError struct {
	// Name is the semaphore's name.
	Name string
	// Wanted is how many permits were to be acquired.
	Wanted int
	// Available is how many nobody has; below 0 if AddPermits or SetPermits took away more than that.
	Available int
	// Total is how many there are, held ones included. It is -1 for an [UnleasedSemaphore]: who has taken its permits is
	// not known.
	Total int
	// Reserved is how many stay for another one, who has waited for longer.
	Reserved int
	// Unset says that there is no semaphore: nobody has set how many permits it has, or it was deleted, or has expired.
	Unset bool
	// TTL is when the first of the held permits expires unless it is renewed; [NoExpiry] if none does.
	TTL time.Duration

	option int // what [Permits] says; 0 if it was not given
}

func (e *PermitsError) Error() string {
	return visible.Text(fmt.Sprintf("holdfast: semaphore %q: %v: %s", e.Name, ErrNoPermits, e.reason()))
}

// hopeless reports whether a wait ends only if somebody changes how many permits there are.
func (e *PermitsError) hopeless() bool {
	if e.Unset {
		return e.option == 0 // else they are being set
	}
	return e.Total >= 0 && e.Wanted > e.Total
}

// ignoresOption reports whether [Permits] says another number than there are.
func (e *PermitsError) ignoresOption() bool {
	return !e.Unset && e.option > 0 && e.Total >= 0 && e.Total != e.option
}

func (e *PermitsError) reason() string {
	text := e.shortage()
	if e.ignoresOption() {
		text += fmt.Sprintf("; this one was made with Permits(%d), but %d are set already: SetPermits changes that", e.option, e.Total)
	}
	return text
}

// shortage is why there are too few.
func (e *PermitsError) shortage() string {
	switch {
	case e.Unset:
		return "nobody has set how many it has: make it with Permits(n), or call TrySetPermits"
	case e.Total >= 0 && e.Wanted > e.Total:
		return fmt.Sprintf("%d wanted, but it has %d in all", e.Wanted, e.Total)
	case e.Available >= e.Wanted:
		return fmt.Sprintf("%d wanted and %d available, but %d are reserved for one who has waited longer", e.Wanted, e.Available, e.Reserved)
	case e.Total > 0 && e.Available <= 0:
		return fmt.Sprintf("all %d are held", protocol.Sum(int64(e.Total), -max(min(0, int64(e.Available)), -math.MaxInt64)))
	case e.Total > 0:
		return fmt.Sprintf("%d wanted, %d of %d available", e.Wanted, e.Available, e.Total)
	}
	return fmt.Sprintf("%d wanted, %d available", e.Wanted, e.Available)
}

// Unwrap returns [ErrNoPermits], and the same as a [*LockedError].
func (e *PermitsError) Unwrap() []error {
	return []error{ErrNoPermits, &LockedError{Name: e.Name, TTL: e.TTL}}
}

// LostReason says why a hold was lost, in words for people.
type LostReason string

// Why holds are lost.
const (
	// LostTaken: Redis says that the owner does not hold the lock: it was forced, deleted, or forgotten in a failover.
	LostTaken = LostReason(lockerr.Taken)
	// LostUnanswered: no renewal was acknowledged before the lease had run out. Err is how the last one failed.
	LostUnanswered = LostReason(lockerr.Unanswered)
	// LostSuspended: the host of the process was suspended, as a laptop is, until the lease had run out.
	LostSuspended = LostReason(lockerr.Suspended)
	// LostLeaseOver: the lease has run out, and was not to be renewed; or it had run out before the answer to the acquire
	// came; or the semaphore has ended ([PermitSemaphore.Expire]).
	LostLeaseOver = LostReason(lockerr.LeaseOver)
	// LostMaxHoldOver: [WithMaxHold] allows no more.
	LostMaxHoldOver = LostReason(lockerr.MaxHoldOver)
	// LostOverwritten: something else stands at the lock's name.
	LostOverwritten = LostReason(lockerr.Overwritten)
	// LostParts: too few of several locks are held. Err is what the last one was lost of.
	LostParts = LostReason(lockerr.Parts)
)

// LostError says why a hold is lost. It matches [ErrLost], [ErrNotHeld] and Err.
type LostError struct {
	// Name is the lock's name.
	Name string
	// Reason is why.
	Reason LostReason
	// Err is the last failure of Redis, or the loss of a part; nil if there was none.
	Err error
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("holdfast: %q: %v: %s", e.Name, ErrLost, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return visible.Text(text)
}

// Unwrap returns [ErrLost], [ErrNotHeld] and Err.
func (e *LostError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrLost, ErrNotHeld}
	}
	return []error{ErrLost, ErrNotHeld, e.Err}
}

// BackendError is a call that Redis did not answer, or refused; or that has waited in vain for
// an earlier call of the same owner, of which no refusal came. If a context ended such a call, the error also matches the
// context's own.
type BackendError struct {
	// Op is what was asked for: acquire, release, renew, adopt, detach, downgrade, force, inspect, identify, leave, set,
	// add, drain, count down, await, expire or delete.
	Op string
	// Name is the lock's name.
	Name string
	// MayHaveRun is false only if the call certainly had no effect; of several locks, if each that was asked refused. After an
	// acquire, the effect is undone in the background. [Hold.Unlock] is repeated there until the lease has run out,
	// [UnleasedSemaphore.Release] for ten times [WithTimeout], [PermitSemaphore.ReleasePermits] not at all.
	MayHaveRun bool
	// Err says why: mostly it is the client's error.
	Err error
}

func (e *BackendError) Error() string {
	return visible.Text(fmt.Sprintf("holdfast: %s of %q failed (%s): %v", e.Op, e.Name, e.effect(), e.Err))
}

// reason describes the failure without the name of the lock.
func (e *BackendError) reason() string {
	return fmt.Sprintf("%s failed (%s): %v", e.Op, e.effect(), e.Err)
}

func (e *BackendError) effect() string {
	if e.MayHaveRun {
		return "it may have had its effect"
	}
	return "it had no effect"
}

func (e *BackendError) Unwrap() error { return e.Err }

// gaveUpError is the error of a call that its own context ended. It matches what err matches, and not [ErrLocked]. [errors.As]
// also finds why: the refusal, or how Redis failed.
type gaveUpError struct {
	err error
	why explanation
}

// explanation is a [*LockedError], a [*PermitsError] or a [*BackendError].
type explanation interface {
	error
	reason() string
}

func (e *gaveUpError) Error() string { return visible.Text(e.err.Error() + ": " + e.why.reason()) }

// Is reports whether target is in the chain of the context's error, or is how Redis failed. What that failure says of contexts is
// about another one.
func (e *gaveUpError) Is(target error) bool {
	_, failed := e.why.(*BackendError)
	return errors.Is(e.err, target) ||
		failed && target != context.Canceled && target != context.DeadlineExceeded && errors.Is(e.why, target)
}

// As finds the explanation, and what else is in its chain if Redis failed, or in that of the context's error. The context may have
// ended with another call's failure: that is no explanation of this one.
func (e *gaveUpError) As(target any) bool {
	switch target.(type) {
	case **LockedError, **PermitsError, **BackendError:
		return errors.As(e.why, target)
	}
	_, failed := e.why.(*BackendError)
	return errors.As(e.err, target) || failed && errors.As(e.why, target)
}

// badTokenError is the refusal of a fenced lock whose last token is none. It matches [ErrOtherKind].
type badTokenError struct{ err error }

func (e badTokenError) Error() string {
	return "no fencing token can follow; set the key of the last one to a number above all that the resource has seen, see docs/security.md: " + e.err.Error()
}

func (e badTokenError) Unwrap() []error { return []error{ErrOtherKind, e.err} }

// otherKind is the error for a key that is none of the lock's kind.
func otherKind(err error) error {
	if strings.Contains(err.Error(), "fencing token") {
		return badTokenError{err}
	}
	return fmt.Errorf("%w; use another name (in Redis, TYPE says what it is): %w", ErrOtherKind, err)
}

// explained puts what to do before a server's refusal.
func explained(err error) error {
	code := call.Code(err)
	switch {
	case code == script.WrongType:
		return otherKind(err)
	case code == "NOAUTH":
		return fmt.Errorf("Redis wants a password, so give the Redis client one: %w", err) //nolint:staticcheck // Redis is a name
	case code == "WRONGPASS":
		return fmt.Errorf("the user name or the password of the Redis client is wrong: %w", err)
	case (code == "MOVED" || code == "ASK") && !call.Passes(err):
		return fmt.Errorf("the server is a node of a cluster, so give holdfast a Redis client for clusters: %w", err)
	case code == "ERR" && strings.Contains(err.Error(), "cluster support disabled"):
		return fmt.Errorf("the server is no cluster, so give holdfast a Redis client for one server: %w", err)
	case code == "NOSCRIPT":
		return fmt.Errorf("the server does not have this script, and the Redis user may not use EVAL; "+
			"have an administrator run holdfast scripts load, of the version that this program uses: %w", err)
	case call.LacksRight(err):
		return fmt.Errorf("the Redis user lacks a right, see docs/acl.md: %w", err)
	case strings.Contains(err.Error(), "max number of clients"):
		return fmt.Errorf("the server has as many connections as its maxclients allows, so close some or raise it: %w", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens there, so start Redis or give the Redis client another address: %w", err)
	}
	return err
}

// engineErrors makes the errors of the engine that have a type.
type engineErrors struct{ client string }

var _ engine.Errors = engineErrors{}

// Locked is the refusal of a lock that an owner holds.
func (e engineErrors) Locked(name, owner string, ttl time.Duration) error {
	return &LockedError{Name: name, Holder: Owner{owner}, TTL: expiry(ttl), own: strings.HasPrefix(owner, e.client+":")}
}

// Lost is why a hold is lost.
func (engineErrors) Lost(name string, why lockerr.Reason, cause error) error {
	return &LostError{Name: name, Reason: LostReason(why), Err: cause}
}

// Backend is a call that was refused or not answered.
func (engineErrors) Backend(op, name string, mayHaveRun bool, why error) error {
	return &BackendError{Op: op, Name: name, MayHaveRun: mayHaveRun, Err: explained(why)}
}

// WithReason adds the explanation that why is or wraps, if there is one, to the error of a call that its context ended.
func (engineErrors) WithReason(err, why error) error {
	var permits *PermitsError
	var locked *LockedError
	var failed *BackendError
	switch {
	case errors.As(why, &permits): // a LockedError, too
		return &gaveUpError{err, permits}
	case errors.As(why, &locked):
		return &gaveUpError{err, locked}
	case errors.As(why, &failed):
		return &gaveUpError{err, failed}
	}
	return err
}

// several holds errors that joinOnce has joined. Unlike the text of [errors.Join], its text is a single line.
type several struct{ errs []error }

func (s *several) Error() string {
	texts := make([]string, len(s.errs))
	for i, err := range s.errs {
		texts[i] = err.Error()
	}
	return visible.Text(strings.Join(texts, "; "))
}

func (s *several) Unwrap() []error { return s.errs }

// joinOnce is [errors.Join], but says what one of them wraps only once: work that a loss has ended mostly returns the loss.
func joinOnce(errs ...error) error {
	var said []error
	for _, err := range errs {
		parts := []error{err}
		if joined, ok := err.(*several); ok { //nolint:errorlint // itself
			parts = joined.errs
		}
		for _, part := range parts {
			if part != nil && !slices.ContainsFunc(said, func(other error) bool { return errors.Is(other, part) }) {
				said = append(said, part)
			}
		}
	}
	switch len(said) {
	case 0:
		return nil
	case 1:
		return said[0]
	}
	return &several{said}
}

// invalidError is an error that matches [ErrInvalid].
type invalidError struct{ err error }

func (e invalidError) Error() string { return visible.Text(e.err.Error()) }

func (e invalidError) Unwrap() error { return e.err }

// invalid returns an error that matches [ErrInvalid].
func invalid(format string, args ...any) error {
	return invalidError{fmt.Errorf("holdfast: %w "+format, append([]any{ErrInvalid}, args...)...)}
}

// misread is the error for a reply that is not one of our scripts'.
func misread(op, name string, err error) error { return &BackendError{Op: op, Name: name, Err: err} }
