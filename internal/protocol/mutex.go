package protocol

import (
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Scripts are those of one kind of lock.
type Scripts struct {
	Acquire, Release, Renew, Adopt, Force, Inspect *driver.Script
	Retain                                         *driver.Script // nil if a hold cannot be kept from others
	Leave                                          *driver.Script // nil if waiting leaves nothing in Redis
}

// MutexScripts are those of the plain lock.
var MutexScripts = Scripts{
	Acquire: load("mutex", "acquire"),
	Release: load("mutex", "release"),
	Renew:   load("mutex", "renew"),
	Adopt:   load("mutex", "adopt"),
	Retain:  load("mutex", "retain"),
	Force:   load("mutex", "force"),
	Inspect: load("mutex", "inspect"),
	Leave:   load("mutex", "leave"),
}

// Mutex is the plain lock: a hash of owner -> count at its name. Use [NewMutex].
type Mutex struct {
	countOnly

	name     [1]string // as the keys of a request
	channel  string
	Polling  bool // waiters hear nothing
	Fenced   bool
	TokenTTL time.Duration // 0: for ever
}

// NewMutex returns the one of a name, with what every request needs of it.
func NewMutex(name string) *Mutex {
	return &Mutex{name: [1]string{name}, channel: LockChannel(name)}
}

// Acquire asks for the lock.
func (l *Mutex) Acquire(a Acquire) script.Request {
	return script.Request{
		Script: MutexScripts.Acquire, Keys: l.keys(a.Token), Acknowledged: true, Args: a.seated(a.Owner, l.TokenTTL),
	}
}

// keys are that of the lock, and that of its tokens if one is wanted.
func (l *Mutex) keys(token bool) []string {
	if token {
		return []string{l.name[0], TokenKey(l.name[0])}
	}
	return l.name[:]
}

// Release gives it back.
func (l *Mutex) Release(owner string, from, to int) script.Request {
	return script.Request{
		Script: MutexScripts.Release, Keys: l.keys(false), Channel: l.Channel(owner),
		Args: []string{Released, owner, strconv.Itoa(from), strconv.Itoa(to)},
	}
}

// CountingListeners makes a release report how many unlisted waiters have received its message, if others are listed: see [ReadHeard]. The
// holder may be subscribed, too, and is not counted.
func CountingListeners(release script.Request, holderListens bool) script.Request {
	counts := func(k *Kind) bool { return k.Waitlist && !k.AlwaysListed && k.Scripts.Release == release.Script }
	if release.Channel != "" && slices.ContainsFunc(Kinds, counts) {
		release.Args = append(release.Args, flag(holderListens))
	}
	return release
}

// Renew lets it live on.
func (l *Mutex) Renew(owner string, _ int, ttl time.Duration) script.Request {
	return script.Request{Script: MutexScripts.Renew, Keys: l.keys(false), Args: []string{owner, millis(ttl)}}
}

// RenewScript is that of a fair lock and of a writer, too.
func (*Mutex) RenewScript() *driver.Script { return MutexScripts.Renew }

// Adopt replaces its owner.
func (l *Mutex) Adopt(a Acquire, other string) script.Request {
	return script.Request{
		Script: MutexScripts.Adopt, Keys: l.keys(a.Token), Channel: l.Channel(other), Acknowledged: true,
		Args: a.adopting(a.Owner, other, l.TokenTTL),
	}
}

// Retain leaves it to nobody for a while.
func (l *Mutex) Retain(owner string, from int, nobody string, rest time.Duration) script.Request {
	return script.Request{
		Script: MutexScripts.Retain, Keys: l.keys(false), Channel: l.Channel(owner),
		Args: []string{Released, owner, strconv.Itoa(from), nobody, millis(rest)},
	}
}

// Force takes it away. It is announced also where nobody of ours listens.
func (l *Mutex) Force(holders []string) script.Request {
	return script.Request{
		Script: MutexScripts.Force, Keys: l.keys(false), Channel: l.channel,
		Args: append([]string{Released}, holders...),
	}
}

// Inspect asks how it stands.
func (l *Mutex) Inspect() script.Request {
	return script.Request{Script: MutexScripts.Inspect, Keys: l.keys(l.Fenced), Args: []string{flag(l.Fenced)}}
}

// Leave takes the owner out of the line, and gives back what it was granted meanwhile.
func (l *Mutex) Leave(owner string) script.Request {
	return script.Request{Script: MutexScripts.Leave, Keys: l.keys(false), Channel: l.channel, Args: []string{Released, owner}}
}

// Channel is one for all who do not stand in line.
func (l *Mutex) Channel(string) string {
	if l.Polling {
		return ""
	}
	return l.channel
}
