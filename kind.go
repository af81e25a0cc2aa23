package holdfast

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// kind is what sets one kind of lock apart from the others: how Redis is asked, and
// traits. Everything else is the same for all.
type kind struct {
	client  *Client
	name    string
	invalid error // why it cannot be used, or nil
	// requests builds the requests to acquire it and to release it; lockRequests is the
	// same value with the other requests of a lock, or nil if the kind has no holds.
	requests     protocol.Waitable
	lockRequests protocol.Lock
	// class is which counts in Redis are meant: kinds of one class are the same
	// lock, and an owner has one state at it.
	class string
	// channel is where all waiters hear of releases; empty if there is none for all.
	channel string
	// contextKey is the [heldKey] under which contexts have its holders.
	contextKey any
	// otherSide is the class in which the same owner may hold the lock, too. Then it
	// must not queue behind those who wait for it to leave.
	otherSide string
	// mode is that of the holders of a read-write lock who hold this side of it; empty:
	// all holders hold it.
	mode string
	// shared says that several owners may hold it at once: when one has been let
	// in, the next waiter may well be, too.
	shared bool
	// queue is which queue of this process waiters stand in: the class, unless each
	// acquire has a class of its own.
	queue string
	// holderChannel is where holders hear that others have changed what they hold;
	// empty: where waiters hear of releases.
	holderChannel string
	// recheckEvery is the longest time between two checks of a hold, renewed or not; 0:
	// there are none.
	recheckEvery time.Duration
	config       kindConfig
	// readOnly says that to acquire it changes nothing in Redis.
	readOnly bool
	// plain says that several of one slot can be acquired in one script.
	plain bool
	// permitIDs are those of the permits that are held; nil if the kind has none.
	permitIDs func() []string
	// refusal is the error for a reply that says no; nil makes a [*LockedError].
	refusal func(script.Reply) error
}

// newKind returns a kind with what all have in common. Its name has been
// checked, and its options have.
func newKind(c *Client, name, class string, requests protocol.Waitable, config kindConfig) *kind {
	k := &kind{client: c, name: name, class: class, queue: class, config: config, requests: requests, invalid: config.invalid}
	k.lockRequests, _ = requests.(protocol.Lock)
	if requests != nil && requests.Channel("a") == requests.Channel("b") {
		k.channel = requests.Channel("")
	}
	k.contextKey = heldKeyOf(k)
	if err := protocol.CheckName(name); err != nil {
		k.invalid = fmt.Errorf("holdfast: %w name: %.80q: %w", ErrInvalid, name, err)
	}
	return k
}

// label is the kind's name, for hooks: its class, unless each acquire has one of its own.
func (k *kind) label() string {
	label, _, _ := strings.Cut(k.class, " ")
	return label
}

// queueFor is which queue of this process an owner waits in, and what the queue listens
// to.
func (k *kind) queueFor(owner string) (q waitqueue.Key) {
	q = waitqueue.Key{Kind: k.queue, Name: k.name, Channel: k.channel}
	if q.Channel == "" {
		q.Channel = k.requests.Channel(owner)
	}
	return q
}

// op is what a [BackendError] calls an acquire of it.
func (k *kind) op() string {
	if k.readOnly {
		return "await"
	}
	return opAcquire
}

// canHold refuses what only locks can do that one owner holds.
func (k *kind) canHold(config lockConfig) error {
	if config.retained() > 0 && (k.lockRequests == nil || k.lockRequests.Retain("", 0, "", 0).IsZero()) {
		return fmt.Errorf("holdfast: %w option: MinHold of %q, which several may hold at once", ErrInvalid, k.name)
	}
	return nil
}
