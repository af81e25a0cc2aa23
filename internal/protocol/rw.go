package protocol

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// ReadScripts are those of the read-write lock's readers, WriteScripts those of its
// writers, whose holds are renewed as those of the plain lock are.
var (
	ReadScripts = Scripts{
		Acquire: load("read", "acquire"),
		Release: load("read", "release"),
		Renew:   load("read", "renew"),
		Adopt:   load("read", "adopt"),
		Force:   load("read", "force"),
		Inspect: rwInspect,
		Leave:   load("read", "leave"),
	}
	WriteScripts = Scripts{
		Acquire: load("write", "acquire"),
		Release: load("write", "release"),
		Renew:   MutexScripts.Renew,
		Adopt:   load("write", "adopt"),
		Retain:  load("write", "retain"),
		Force:   load("write", "force"),
		Inspect: rwInspect,
		Leave:   load("write", "leave"),
	}
)

// rwInspect is about both sides.
var rwInspect = load("rw", "inspect")

// Reservation is how long a waiter is believed to be there for whom others make
// way. Waiters ask again within it, every three seconds.
const Reservation = 4500 * time.Millisecond

// Read is the side of a read-write lock that many hold: a field of the hash with the
// owner's count, and a key with a time to live for each of its holds. Use [NewRead].
type Read struct {
	countOnly

	Name    string
	channel string
}

// NewRead returns the one of a name.
func NewRead(name string) *Read { return &Read{Name: name, channel: RWChannel(name)} }

// keys are first, and then the owner's read holds.
func (l *Read) keys(owner string, count int, first ...string) []string {
	for i := range count {
		first = append(first, ReadHoldKey(l.Name, owner, i+1))
	}
	return first
}

// Acquire asks for one more read hold, or several.
func (l *Read) Acquire(a Acquire) script.Request {
	a.Token = false // a reader has none
	more := []string{ReadPrefix(l.Name)}
	if a.Writes { // and stands in no line
		more, a.Number = append(more, flag(true)), ""
	}
	return script.Request{
		Script: ReadScripts.Acquire, Keys: l.keys(a.Owner, a.To, l.Name, ReservationKey(l.Name)), Acknowledged: true,
		Args: a.args(0, more...),
	}
}

// Release gives read holds back.
func (l *Read) Release(owner string, from, to int) script.Request {
	return script.Request{
		Script: ReadScripts.Release, Keys: l.keys(owner, from, l.Name), Channel: l.channel,
		Args: []string{Released, owner, strconv.Itoa(from), strconv.Itoa(to), ReadPrefix(l.Name)},
	}
}

// Renew lets the owner's read holds live on, and the hash with them.
func (l *Read) Renew(owner string, count int, ttl time.Duration) script.Request {
	return script.Request{
		Script: ReadScripts.Renew, Keys: l.keys(owner, count, l.Name),
		Args: []string{owner, millis(ttl), strconv.Itoa(count), ReadPrefix(l.Name)},
	}
}

// RenewScript is the readers' own.
func (*Read) RenewScript() *driver.Script { return ReadScripts.Renew }

// Adopt replaces a reader.
func (l *Read) Adopt(a Acquire, other string) script.Request {
	return script.Request{
		Script: ReadScripts.Adopt, Keys: l.keys(a.Owner, 1, l.Name), Channel: l.channel, Acknowledged: true,
		Args: []string{millis(a.Lease), a.Owner, other, Released, ReadPrefix(l.Name)},
	}
}

// Retain has nothing to ask: others may read beside it anyway.
func (*Read) Retain(string, int, string, time.Duration) script.Request { return script.Request{} }

// Crowd is how many readers the answer to Inspect names at most: CROWD in lua/rw_inspect.lua. Everybody, behind so many of them in
// a call of Force, stands for all who read.
const (
	Crowd     = 10_000
	Everybody = ""
)

// Force takes it from readers.
func (l *Read) Force(holders []string) script.Request {
	return script.Request{
		Script: ReadScripts.Force, Keys: []string{l.Name}, Channel: l.channel,
		Args: append([]string{Released, ReadPrefix(l.Name)}, holders...),
	}
}

// Inspect asks who holds it, for reading or writing.
func (l *Read) Inspect() script.Request {
	return script.Request{Script: ReadScripts.Inspect, Keys: []string{l.Name}, Args: []string{ReadPrefix(l.Name)}}
}

// Leave takes the owner out of the line, and gives back what it was granted meanwhile.
func (l *Read) Leave(owner string) script.Request {
	return script.Request{
		Script: ReadScripts.Leave, Keys: l.keys(owner, 1, l.Name), Channel: l.channel,
		Args: []string{Released, owner, ReadPrefix(l.Name)},
	}
}

// Channel is one for all.
func (l *Read) Channel(string) string { return l.channel }

// Write is the side of a read-write lock that one holds. Use [NewWrite].
type Write struct {
	countOnly

	Name         string
	channel      string
	Fenced       bool
	TokenTTL     time.Duration // 0: for ever
	WritersFirst bool
}

// NewWrite returns the one of a name.
func NewWrite(name string) *Write { return &Write{Name: name, channel: RWChannel(name)} }

// keys are those of the lock, and that of its tokens if one is wanted.
func (l *Write) keys(token bool, keys ...string) []string {
	if token {
		return append(keys, TokenKey(l.Name))
	}
	return keys
}

// Acquire asks for the lock, and that readers make way if it is refused.
func (l *Write) Acquire(a Acquire) script.Request {
	reserve := time.Duration(0)
	if a.Waiting && l.WritersFirst {
		reserve = Reservation
	}
	return script.Request{
		Script: WriteScripts.Acquire, Keys: l.keys(a.Token, l.Name, ReservationKey(l.Name)), Acknowledged: true,
		Args: a.args(l.TokenTTL, ReadPrefix(l.Name), millis(reserve)),
	}
}

// Release gives it back.
func (l *Write) Release(owner string, from, to int) script.Request {
	return script.Request{
		Script: WriteScripts.Release, Keys: []string{l.Name}, Channel: l.channel,
		Args: []string{WriterReleased, owner, strconv.Itoa(from), strconv.Itoa(to), ReadPrefix(l.Name)},
	}
}

// Renew lets it live on.
func (l *Write) Renew(owner string, _ int, ttl time.Duration) script.Request {
	return script.Request{
		Script: WriteScripts.Renew, Keys: []string{l.Name}, Args: []string{WriterField(owner), millis(ttl)},
	}
}

// RenewScript is that of the plain lock.
func (*Write) RenewScript() *driver.Script { return WriteScripts.Renew }

// Adopt replaces the writer.
func (l *Write) Adopt(a Acquire, other string) script.Request {
	return script.Request{
		Script: WriteScripts.Adopt, Keys: l.keys(a.Token, l.Name), Channel: l.channel, Acknowledged: true,
		Args: []string{millis(a.Lease), a.Owner, other, millis(l.TokenTTL), Released, ReadPrefix(l.Name)},
	}
}

// Retain leaves it to nobody for a while.
func (l *Write) Retain(owner string, from int, nobody string, rest time.Duration) script.Request {
	return script.Request{
		Script: WriteScripts.Retain, Keys: []string{l.Name}, Channel: l.channel,
		Args: []string{WriterReleased, owner, strconv.Itoa(from), nobody, millis(rest), ReadPrefix(l.Name)},
	}
}

// Force takes it from the writer.
func (l *Write) Force(holders []string) script.Request {
	return script.Request{
		Script: WriteScripts.Force, Keys: []string{l.Name}, Channel: l.channel,
		Args: append([]string{WriterReleased, ReadPrefix(l.Name)}, holders...),
	}
}

// Inspect asks who holds it, for reading or writing.
func (l *Write) Inspect() script.Request {
	return script.Request{Script: WriteScripts.Inspect, Keys: l.keys(l.Fenced, l.Name), Args: []string{ReadPrefix(l.Name)}}
}

// Leave takes the owner out of the line, takes its reservation back, and gives back what it was granted meanwhile.
func (l *Write) Leave(owner string) script.Request {
	return script.Request{
		Script: WriteScripts.Leave, Keys: []string{l.Name, ReservationKey(l.Name)}, Channel: l.channel,
		Args: []string{WriterReleased, owner, ReadPrefix(l.Name)},
	}
}

// Channel is one for all.
func (l *Write) Channel(string) string { return l.channel }
