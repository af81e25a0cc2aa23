package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Identity says, for people, who a [Client] is. Each client writes its own to a small hash in Redis when it first acquires
// something, so errors, [State] and the command-line tool can name who holds a lock. Nothing depends on it: anybody who
// may write to Redis can change it.
type Identity struct {
	// Program is the program's name. The default is that of its file, without a path.
	Program string
	// Version is the program's. The default is what the go command has built into it; empty if it has not.
	Version string
	// Host is the machine's name. The default is what the system calls it.
	Host string
	// PID is the process's number there. The default is what the system says.
	PID int
	// Since is when the client began. [WithIdentity] does not heed it.
	Since time.Time
}

// String returns "billing@web-3 pid 4711", or what of that is known, if anything.
func (i Identity) String() string {
	text := i.Program
	if i.Host != "" {
		text += "@" + i.Host
	}
	if i.PID > 0 {
		text = strings.TrimPrefix(fmt.Sprintf("%s pid %d", text, i.PID), " ")
	}
	return text
}

// IsZero reports whether nothing is known: the client is not one of holdfast, has [WithoutIdentity],
// may not write its key, or has been closed; or the client that asked has [WithoutIdentity].
func (i Identity) IsZero() bool { return i == Identity{} }

// WithIdentity sets what the client says of itself; what is zero in i is as [Identity] says. [ErrInvalid] for texts of
// more than 128 bytes, or that cannot be printed.
func WithIdentity(i Identity) ClientOption {
	return clientOption(func(c *config) error {
		for _, text := range []string{i.Program, i.Version, i.Host} {
			if text != presence.Printable(text) {
				return invalid("option: WithIdentity(%.40q) is too long, or cannot be printed", text)
			}
		}
		if i.PID < 0 {
			return invalid("option: WithIdentity: the PID %d is negative", i.PID)
		}
		c.identity, c.anonymous = i, false
		return nil
	})
}

// WithoutIdentity keeps the client from identifying itself and from looking up the identity of holders. It writes no key except
// those of its locks, needs no right to the keys of identities, and a refusal or an Inspect costs one call. So its own
// [LockedError] and [State] have no Who and no HeldFor, even if the holder has identified itself, and their texts name owners as
// they are recorded in Redis. [Client.Who] still asks.
func WithoutIdentity() ClientOption {
	return clientOption(func(c *config) error {
		c.anonymous = true
		return nil
	})
}

// Who returns who an owner's client is, as Redis knows it, if the owner stands there as a holder or a waiter; the zero
// Identity if that is not known. The errors are those of [Mutex.Inspect].
func (c *Client) Who(ctx context.Context, owner Owner) (Identity, error) {
	c.made()
	found, err := c.presence.Who(ctx, owner.text)
	return identityOf(found), err
}

// asWritten returns i as it is written to Redis.
func (i Identity) asWritten() protocol.Client {
	return protocol.Client{Program: i.Program, Version: i.Version, Host: i.Host, PID: i.PID}
}

// identityOf returns who the client of a holder is, as far as that is known.
func identityOf(h presence.Holder) Identity {
	return Identity{Program: h.Client.Program, Version: h.Client.Version, Host: h.Client.Host, PID: h.Client.PID, Since: h.Since}
}

// identify asks Redis what the client of a key says of itself, and since when these fields are so.
func (c *Client) identify(ctx context.Context, key string, fields []string) (protocol.Known, error) {
	const op = "identify"
	hash := engine.Lock{Traits: engine.Traits{Kind: &protocol.Kind{Name: "client"}}, Engine: c.engine, Name: key}
	res, err := hash.Invoke(ctx, op, protocol.ReadClient(key, fields))
	if err != nil {
		return protocol.Known{}, err
	}
	known, err := protocol.ParseClient(res.Reply)
	if err != nil {
		return protocol.Known{}, misread(op, key, err)
	}
	return known, nil
}

// introduce says who the holders of a lock are, as far as that can be found out.
func (c *Client) introduce(ctx context.Context, state *State) {
	owners := make([]string, len(state.Holders))
	for i, h := range state.Holders {
		owners[i] = h.Owner.text
	}
	for i, known := range c.presence.Holders(ctx, state.Name, owners) {
		state.Holders[i].Who, state.Holders[i].HeldFor = identityOf(known), known.HeldFor
	}
}

// withHolder adds to the refusal of an acquire who holds the lock, as far as that can be found out. If the caller's
// deadline has passed, it takes a moment longer for that.
func (c *Client) withHolder(ctx context.Context, err error) error {
	switch refused := err.(type) { //nolint:errorlint // not one that somebody has wrapped
	case *LockedError:
		return c.named(ctx, refused)
	case *gaveUpError:
		locked, ok := refused.why.(*LockedError)
		if !ok {
			return err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			ctx = context.WithoutCancel(ctx)
		}
		return &gaveUpError{refused.err, c.named(ctx, locked)}
	}
	return err
}

// named adds to a refusal who holds the lock.
func (c *Client) named(ctx context.Context, refused *LockedError) *LockedError {
	named := *refused // others may have been given the same one
	if holder, ok := c.presence.Holder(ctx, refused.Name, refused.Holder.text); ok {
		named.Who, named.HeldFor = identityOf(holder), holder.HeldFor
	}
	return &named
}
