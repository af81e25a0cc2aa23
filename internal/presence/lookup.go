package presence

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

const (
	// refusalTakes and inspectTakes bound how much longer a refusal and an Inspect take that name holders.
	// Neither takes longer for it than the client's timeout.
	refusalTakes, inspectTakes = 250 * time.Millisecond, time.Second
	// mostAsked is how many clients are asked about at once, and mostFields how many owners of each.
	mostAsked, mostFields = 64, 1000
)

// Holder is what is known of an owner that holds a lock. What is not known is zero.
type Holder struct {
	Client  protocol.Client // what its client says of itself; Since stands for its Age
	Since   time.Time       // when its client began
	HeldFor time.Duration   // 0: for less than a second, or it is not known
}

// Who returns what Redis has about an owner, whatever it holds. An anonymous client asks, too.
func (p *Presence) Who(ctx context.Context, owner string) (Holder, error) {
	found, err := p.lookUp(ctx, "", []string{owner})
	return found[0], err
}

// Holders returns what can be found out about the owners that hold a lock. It is nothing for an anonymous client, which does not ask.
func (p *Presence) Holders(ctx context.Context, name string, owners []string) []Holder {
	if p.config.Anonymous {
		return make([]Holder, len(owners))
	}
	ctx, stop := context.WithTimeout(ctx, min(inspectTakes, p.config.Timeout))
	defer stop()
	found, _ := p.lookUp(ctx, name, owners) // what is not known is left out
	return found
}

// Holder returns what can be found out about the owner that an acquire was refused for. It reports false if it
// has not tried: an owner of another client is asked about ten times a second at most, so being refused
// all the time does not cost twice as much.
func (p *Presence) Holder(ctx context.Context, name, owner string) (Holder, bool) {
	switch key := protocol.ClientKey(owner); {
	case key == "" || p.config.Anonymous, key != p.key && !p.questions.allow():
		return Holder{}, false
	}
	ctx, stop := context.WithTimeout(ctx, min(refusalTakes, p.config.Timeout))
	defer stop()
	found, _ := p.lookUp(ctx, name, []string{owner}) // likewise
	return found[0], true
}

// lookUp returns what is known of each owner, at the lock of the given name. With an error, it returns
// what is known all the same. An owner of Redisson has nothing to ask about.
func (p *Presence) lookUp(ctx context.Context, name string, owners []string) ([]Holder, error) {
	found := make([]Holder, len(owners))
	questions := map[string][]int{} // by the client's key: which of the owners
	for i, owner := range owners {
		key := protocol.ClientKey(owner)
		switch {
		case key == "", key == p.key && p.config.Anonymous:
		case key == p.key:
			found[i] = p.own(owner, name)
		case len(questions[key]) < mostFields && (len(questions) < mostAsked || questions[key] != nil):
			questions[key] = append(questions[key], i)
		}
	}
	var all sync.WaitGroup
	var mu sync.Mutex // guards failed
	var failed error
	for key, which := range questions {
		all.Go(func() {
			if err := p.ask(ctx, key, name, owners, which, found); err != nil {
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
func (p *Presence) ask(ctx context.Context, key, name string, owners []string, which []int, found []Holder) error {
	fields := make([]string, len(which))
	for i, at := range which {
		fields[i] = protocol.HeldField(owners[at], name)
	}
	known, err := p.config.Ask(ctx, key, fields)
	if err != nil {
		if call.LacksRight(err) {
			p.questions.pause(rightAfter) // the server notes each refusal in its log
		}
		return err
	}
	holder := Holder{Client: cleaned(known.Client)}
	if known.Age > 0 {
		holder.Since = time.Now().Add(-known.Age)
	}
	for i, at := range which {
		if found[at] = holder; i < len(known.Held) {
			found[at].HeldFor = known.Held[i]
		}
	}
	return nil
}

// askLimit allows ten questions a second. The zero askLimit is ready for use.
type askLimit struct {
	used atomic.Int64 // until when the questions asked so far use up what is allowed: a mono.Time
}

// allow reports whether a question may be asked now, and counts it.
func (l *askLimit) allow() bool {
	const share, most = int64(100 * time.Millisecond), int64(time.Second)
	now := int64(mono.Now())
	for {
		used := l.used.Load()
		next := max(used, now-most) + share
		if next > now {
			return false
		}
		if l.used.CompareAndSwap(used, next) {
			return true
		}
	}
}

// pause allows none for so long.
func (l *askLimit) pause(d time.Duration) { l.used.Store(int64(mono.Now().Add(d))) }
