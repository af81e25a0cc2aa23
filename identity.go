package holdfast

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Identity says, for people, who a [Client] is. Each client writes its own to Redis, as a small
// hash of its own, when it first acquires something; so errors, [State] and the command-line tool
// can name who holds a lock. Nothing depends on it: anybody who may write to Redis can change it.
type Identity struct {
	// Program is the program's name. The default is that of its file, without a path.
	Program string
	// Version is the program's. The default is what the go command has built into it; empty if it
	// has not.
	Version string
	// Host is the machine's name. The default is what the system calls it.
	Host string
	// PID is the process's number there. The default is what the system says.
	PID int
	// Since is when the client began. [WithIdentity] does not heed it.
	Since time.Time
}

// String returns "billing@web-3 pid 4711", or what of that is known; empty if nothing is.
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

// IsZero reports whether nothing is known: it is no client of holdfast's, one that has [WithoutIdentity]
// or may not write to its key, or one that has been closed.
func (i Identity) IsZero() bool { return i == Identity{} }

// longestIdentity is how many bytes each text of an [Identity] may have.
const longestIdentity = 128

// WithIdentity sets what the client says of itself; what is zero in i is as [Identity] says. Texts
// of more than 128 bytes, or with what cannot be printed, are [ErrInvalid]. Redisson has no counterpart.
func WithIdentity(i Identity) ClientOption {
	return clientOption(func(c *config) error {
		for _, text := range []string{i.Program, i.Version, i.Host} {
			if len(text) > longestIdentity || text != printable(text) {
				return fmt.Errorf("holdfast: %w option: WithIdentity(%.40q) is too long, or cannot be printed", ErrInvalid, text)
			}
		}
		if i.PID < 0 {
			return fmt.Errorf("holdfast: %w option: WithIdentity: the PID %d is negative", ErrInvalid, i.PID)
		}
		c.identity, c.anonymous = i, false
		return nil
	})
}

// WithoutIdentity keeps the client from saying who it is, and from asking who others are: it
// writes no key but those of its locks, and its errors name owners as they stand in Redis.
func WithoutIdentity() ClientOption {
	return clientOption(func(c *config) error {
		c.anonymous = true
		return nil
	})
}

// printable is a text without what could move the cursor of a terminal, and not longer than
// identities are.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), longestIdentity)], "")
}

// processIdentity is what the system says.
var processIdentity = sync.OnceValue(func() Identity {
	found := Identity{PID: os.Getpid()}
	if path, err := os.Executable(); err == nil { // else it is not known
		found.Program = printable(filepath.Base(path))
	}
	if host, err := os.Hostname(); err == nil {
		found.Host = printable(host)
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "(devel)" {
		found.Version = printable(build.Main.Version)
	}
	return found
})

// filledIn is i with the defaults.
func (i Identity) filledIn() Identity {
	of := processIdentity()
	if i.Program == "" {
		i.Program = of.Program
	}
	if i.Version == "" {
		i.Version = of.Version
	}
	if i.Host == "" {
		i.Host = of.Host
	}
	if i.PID == 0 {
		i.PID = of.PID
	}
	i.Since = time.Now()
	return i
}

// Who returns who an owner's client is, as Redis knows it: an owner's that stands there as a
// holder or a waiter, or the id of a permit. It is the zero Identity if that is not known. The
// errors are those of [Mutex.Inspect]. Redisson has no counterpart.
func (c *Client) Who(ctx context.Context, owner Owner) (Identity, error) {
	found, err := c.about(ctx, "", []Owner{owner})
	return found[0].who, err
}

// about is what is known of an owner at one lock.
type about struct {
	who     Identity
	heldFor time.Duration // 0: for less than a second, or it is not known
}

// mostAsked is about how many clients is asked at once, and mostFields how much about one.
const mostAsked, mostFields = 64, 1000

// about returns what is known of each owner, at the lock of the given name. With an error it
// returns what is known all the same.
func (c *Client) about(ctx context.Context, name string, owners []Owner) ([]about, error) {
	found := make([]about, len(owners))
	questions := map[string][]int{} // by the client's key: which of the owners
	for i, owner := range owners {
		key := protocol.ClientKey(owner.text)
		switch {
		case key == "" || c.config.anonymous:
		case key == c.presence.key:
			found[i] = c.presence.about(owner, name)
		case len(questions[key]) < mostFields && (len(questions) < mostAsked || questions[key] != nil):
			questions[key] = append(questions[key], i)
		}
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for key, which := range questions {
		all.Go(func() {
			if err := c.ask(ctx, key, name, owners, which, found); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = err
			}
		})
	}
	all.Wait()
	return found, failed
}

// ask fills in what the client of a key says of some owners.
func (c *Client) ask(ctx context.Context, key, name string, owners []Owner, which []int, found []about) error {
	fields := make([]string, len(which))
	for i, at := range which {
		fields[i] = protocol.HeldField(owners[at].text, name)
	}
	res, err := invoke(ctx, &kind{traits: clientTraits, client: c, name: key}, "identify", protocol.ReadClient(key, fields))
	if err != nil {
		c.presence.askedInVain(err)
		return err
	}
	known, err := protocol.ParseClient(res.Reply)
	if err != nil {
		return misread("identify", key, err)
	}
	who := Identity{
		Program: printable(known.Program), Version: printable(known.Version), Host: printable(known.Host), PID: max(0, known.PID),
	}
	if known.Age > 0 {
		who.Since = time.Now().Add(-known.Age)
	}
	for i, at := range which {
		found[at].who = who
		if i < len(known.Held) {
			found[at].heldFor = known.Held[i]
		}
	}
	return nil
}

// introducing bounds how much longer a refusal takes that says who holds the lock, and introducingAll how
// much longer an Inspect does; neither takes longer than the client's timeout for it.
const introducing, introducingAll = 250 * time.Millisecond, time.Second

// introduce says who the holders of a lock are, as far as that can be found out.
func (c *Client) introduce(ctx context.Context, state *State) {
	if len(state.Holders) == 0 {
		return
	}
	owners := make([]Owner, len(state.Holders))
	for i, h := range state.Holders {
		owners[i] = h.Owner
	}
	ctx, stop := context.WithTimeout(ctx, min(introducingAll, c.config.timeout))
	defer stop()
	known, _ := c.about(ctx, state.Name, owners) // names are an addition: what is not known is left out
	for i := range state.Holders {
		state.Holders[i].Who, state.Holders[i].HeldFor = known[i].who, known[i].heldFor
	}
}

// withHolder adds to the refusal of an acquire who holds the lock. Where a client is refused often
// it asks ten times a second, and no more.
func (c *Client) withHolder(ctx context.Context, err error) error {
	refused, ok := err.(*LockedError) //nolint:errorlint // not one that somebody has wrapped
	if !ok || refused.Holder.IsZero() || c.config.anonymous || !c.presence.mayAsk(refused.Holder) {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, min(introducing, c.config.timeout))
	defer stop()
	known, _ := c.about(ctx, refused.Name, []Owner{refused.Holder}) // likewise
	named := *refused                                               // others may have been given the same one
	named.Who, named.HeldFor = known[0].who, known[0].heldFor
	return &named
}

// clientTraits are for what is no lock, but a client's hash.
var clientTraits = &traits{label: "client"}
