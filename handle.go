package holdfast

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// handle is a user's handle on one lock, of whichever kind: the lock as the engine has it, and what only users see of it.
type handle struct {
	engine.Lock

	client  *Client
	invalid error // why it cannot be used, or nil
}

// newHandle returns a handle with what all kinds have in common.
func newHandle(c *Client, name string, k *protocol.Kind, requests protocol.Waitable) handle {
	l := handle{Lock: engine.Lock{Traits: engine.Traits{Kind: k}, Engine: c.made(), Name: name, Requests: requests}, client: c}
	if err := protocol.CheckName(name); err != nil {
		l.refuse(invalid("name: %.80q: %w", name, err))
	} else if other := c.names.meet(name); other != "" {
		l.refuse(invalid("name: %.80q: this client uses %.80q, too, and the keys beside both are the same: use one of the two", name, other))
	}
	return l
}

// spellings are some of the names that a client has met lately. The names a and {a} are two locks that share the keys beside them.
type spellings [256]atomic.Pointer[string]

var spellingsSeed = maphash.MakeSeed()

// meet notes a name. If the other spelling of it was met before, it returns that instead.
func (s *spellings) meet(name string) (other string) {
	bare := unbraced(name)
	last := &s[maphash.String(spellingsSeed, bare)%uint64(len(s))]
	switch met := last.Load(); {
	case met == nil || unbraced(*met) != bare:
		kept := name // else every name would be copied to the heap
		last.Store(&kept)
	case *met != name:
		return *met
	}
	return ""
}

// unbraced is a name without the braces around all of it, if it has such.
func unbraced(name string) string {
	if strings.HasPrefix(name, "{") && strings.IndexByte(name, '}') == len(name)-1 {
		return name[1 : len(name)-1]
	}
	return name
}

// made returns the handle. It panics if the lock is a zero value.
func (l *handle) made() *handle {
	if l.client == nil {
		panic("holdfast: this lock, semaphore or latch is a zero value; make one with a method of a Client, such as NewMutex")
	}
	return l
}

// refuse has every call return an error, if it is one; the first one counts.
func (l *handle) refuse(err error) { l.invalid = cmp.Or(l.invalid, err) }

// invoke is one call of a user's, from the checks to the errors.
func (l *handle) invoke(ctx context.Context, op string, request script.Request) (call.Result, error) {
	if l.made().invalid != nil {
		return call.Result{}, l.invalid
	}
	return l.Invoke(ctx, op, request)
}

// complete adds the client's settings to the options of an acquire, in place, and refuses what cannot work.
func (l *handle) complete(cfg *lockConfig) error {
	c := &l.made().client.config
	cfg.hooks = append(slices.Clip(c.hooks), cfg.hooks...)
	if err := cmp.Or(l.invalid, cfg.invalid); err != nil {
		return err
	}
	if cfg.Retained() > 0 {
		if err := l.canRetain(cfg); err != nil {
			return err
		}
	}
	switch {
	case cfg.Lease == 0:
		cfg.Lease = c.Lease
	case !c.usable(cfg.Lease), (!cfg.Fixed || cfg.RenewFirst) && !c.renewable(cfg.Lease):
		return invalid("lease: %v leaves too little beside the margin of %v", cfg.Lease, c.Margin)
	case c.MaxHold == 0 || cfg.Lease <= c.MaxHold:
	case cfg.Fixed:
		return invalid("lease: %v is longer than WithMaxHold allows, %v", cfg.Lease, c.MaxHold)
	default:
		cfg.Lease = c.MaxHold
	}
	return nil
}

// canRetain refuses [MinHold] where it is longer than the hold may last, or where several may hold the lock.
func (l *handle) canRetain(cfg *lockConfig) error {
	kept, most := cfg.Retained(), l.client.config.MaxHold
	if cfg.Fixed && kept > cfg.Lease || most > 0 && kept > most {
		return invalid("option: MinHold(%v) is longer than the lease, or than WithMaxHold allows", kept)
	}
	if held := l.HoldRequests(); held == nil || held.Retain("", 0, "", 0).IsZero() {
		return invalid("option: MinHold of %q, which several may hold at once", l.Name)
	}
	return nil
}

// acquire is Lock, TryLock and Adopt of every kind: it adopts the lock from another owner if there is one.
func (l *handle) acquire(ctx context.Context, from Owner, config *lockConfig) (*Hold, error) {
	started, own := time.Now(), config.hooks
	h := &Hold{handle: l}
	h.core = &h.one
	var went engine.Report
	err := l.complete(config)
	if err == nil {
		if h.hooks = config.hooks; len(h.hooks) > 0 {
			h.one.Observer, config.OnWait = (*observer)(h), (*observer)(h)
		}
		if from == (Owner{}) {
			went, err = l.Acquire(ctx, &h.one, &config.Args)
		} else {
			went, err = l.Adopt(ctx, &h.one, from.text, from.shown(), &config.Args)
		}
	}
	how := report{started, went}
	if err != nil {
		err = l.client.withHolder(ctx, err)
		tellResult(ctx, onRefuse, l, own, how, err)
		return nil, err
	}
	if len(h.hooks) > 0 {
		h.tellAcquired(how)
	}
	return h, nil
}

// pass asks, as a Lock does, until the answer is yes: for what has no owner and leaves no hold. If it gives up, what it may
// have taken is given back.
func (l *handle) pass(ctx context.Context, config *lockConfig) error {
	started, own := time.Now(), config.hooks
	var went engine.Report
	err := l.complete(config)
	if err == nil {
		if len(config.hooks) > 0 {
			config.OnWait = (*observer)(&Hold{handle: l, hooks: config.hooks})
		}
		went, err = engine.Pass(ctx, &l.Lock, &config.Args)
	}
	how := report{started, went}
	if err != nil {
		tellResult(ctx, onRefuse, l, own, how, err)
		return err
	}
	told := false
	defer func() {
		if told {
			return
		}
		// A hook has panicked: nobody knows that it was let in.
		if release := l.Requests.Release("", 1, 0); !release.IsZero() {
			_, _ = l.Detached(l.Engine.Life, "release", release)
		}
	}()
	tellResult(ctx, onPass, l, own, how, nil)
	told = true
	return nil
}

// once identifies a call with an effect of its own. Redis keeps the id for longer than the call's outcome can be
// unknown, also to a waiter that bears an outage, and for longer than a delayed attempt can take to arrive.
func (l *handle) once() protocol.Once {
	e := l.made().Engine
	return protocol.Once{ID: newID(), TTL: (engine.Outage+2)*e.Timeout + time.Second + e.Calls.Doubt(l.Name)}
}
