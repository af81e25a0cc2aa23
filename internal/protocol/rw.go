package protocol

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// RWScripts are those of both sides of a read-write lock. Only the holds of readers are renewed by Renew; those of writers are renewed as
// those of the plain lock are.
var RWScripts = Scripts{
	Acquire: load("rw", "acquire"),
	Release: load("rw", "release"),
	Renew:   load("rw", "renew"),
	Adopt:   load("rw", "adopt"),
	Retain:  load("rw", "retain"),
	Force:   load("rw", "force"),
	Inspect: load("rw", "inspect"),
	Leave:   load("rw", "leave"),
}

// Read is the side of a read-write lock that many hold: a field of the hash with the
// owner's count, and a key with a time to live for each of its holds. Use [NewRead].
type Read struct {
	countOnly

	Name    string
	channel string
}

// NewRead returns the one of a name.
func NewRead(name string) *Read { return &Read{Name: name, channel: RWChannel(name)} }

// keys are that of the lock, and those of the owner's read holds.
func (l *Read) keys(owner string, count int) []string {
	all := append(make([]string, 0, 1+count), l.Name)
	for i := range count {
		all = append(all, ReadHoldKey(l.Name, owner, i+1))
	}
	return all
}

// Acquire asks for one more read hold, or several.
func (l *Read) Acquire(a Acquire) script.Request {
	a.Token = false // a reader has none
	request := script.Request{Script: RWScripts.Acquire, Keys: l.keys(a.Owner, a.To), Acknowledged: true}
	if a.Writes { // and stands in no line, and waits for none
		a.Number, a.Unlisted = "", false
		request.Args = append(a.seated(a.Owner, 0), "", "", onlyBesideOwnWrite)
	} else {
		request.Args = a.seated(a.Owner, 0)
	}
	return request
}

// onlyBesideOwnWrite is what a reader wants that is nested in its own write hold: see room in lua/rw.lua.
const onlyBesideOwnWrite = "writes"

// Release gives read holds back.
func (l *Read) Release(owner string, from, to int) script.Request {
	return script.Request{
		Script: RWScripts.Release, Keys: l.keys(owner, from), Channel: l.channel,
		Args: []string{Released, owner, strconv.Itoa(from), strconv.Itoa(to)},
	}
}

// Renew lets the owner's read holds live on, and the hash with them.
func (l *Read) Renew(owner string, count int, ttl time.Duration) script.Request {
	return script.Request{
		Script: RWScripts.Renew, Keys: l.keys(owner, count), Args: []string{owner, millis(ttl), strconv.Itoa(count)},
	}
}

// RenewScript is the readers' own.
func (*Read) RenewScript() *driver.Script { return RWScripts.Renew }

// Adopt replaces a reader.
func (l *Read) Adopt(a Acquire, other string) script.Request {
	a.Token = false // a reader has none
	return script.Request{
		Script: RWScripts.Adopt, Keys: l.keys(a.Owner, 1), Channel: l.channel, Acknowledged: true,
		Args: a.adopting(a.Owner, other, 0),
	}
}

// Retain has nothing to ask: others may read beside it anyway.
func (*Read) Retain(string, int, string, time.Duration) script.Request { return script.Request{} }

// Crowd is how many readers the answer to Inspect names at most: CROWD in lua/rw.lua. Everybody, behind so many of them in
// a call of Force, stands for all who read.
const (
	Crowd     = 10_000
	Everybody = ""
)

// Force takes it from readers.
func (l *Read) Force(holders []string) script.Request {
	return script.Request{
		Script: RWScripts.Force, Keys: l.keys("", 0), Channel: l.channel, Args: append([]string{Released}, holders...),
	}
}

// Inspect asks who holds it, for reading or writing.
func (l *Read) Inspect() script.Request {
	return script.Request{Script: RWScripts.Inspect, Keys: l.keys("", 0), Args: []string{flag(false)}}
}

// Leave takes the owner out of the line, and gives back what it was granted meanwhile.
func (l *Read) Leave(owner string) script.Request {
	return script.Request{
		Script: RWScripts.Leave, Keys: l.keys(owner, 1), Channel: l.channel, Args: []string{Released, owner},
	}
}

// Channel is one for all.
func (l *Read) Channel(string) string { return l.channel }

// Write is the side of a read-write lock that one holds. Its seat is [WriterField] of the owner. Use [NewWrite].
type Write struct {
	countOnly

	Name         string
	channel      string
	Fenced       bool
	TokenTTL     time.Duration // 0: for ever
	WritersFirst bool          // its entries in the waitlist have a place in front
}

// NewWrite returns the one of a name.
func NewWrite(name string) *Write { return &Write{Name: name, channel: RWChannel(name)} }

// keys are that of the lock, and that of its tokens if one is wanted.
func (l *Write) keys(token bool) []string {
	if token {
		return []string{l.Name, TokenKey(l.Name)}
	}
	return []string{l.Name}
}

// Acquire asks for the lock.
func (l *Write) Acquire(a Acquire) script.Request {
	a.InFront = l.WritersFirst
	return script.Request{
		Script: RWScripts.Acquire, Keys: l.keys(a.Token), Acknowledged: true, Args: a.seated(WriterField(a.Owner), l.TokenTTL),
	}
}

// Release gives it back.
func (l *Write) Release(owner string, from, to int) script.Request {
	return script.Request{
		Script: RWScripts.Release, Keys: l.keys(false), Channel: l.channel,
		Args: []string{WriterReleased, WriterField(owner), strconv.Itoa(from), strconv.Itoa(to)},
	}
}

// Renew lets it live on.
func (l *Write) Renew(owner string, _ int, ttl time.Duration) script.Request {
	return script.Request{Script: l.RenewScript(), Keys: l.keys(false), Args: []string{WriterField(owner), millis(ttl)}}
}

// RenewScript is that of the plain lock.
func (*Write) RenewScript() *driver.Script { return MutexScripts.Renew }

// Adopt replaces the writer.
func (l *Write) Adopt(a Acquire, other string) script.Request {
	return script.Request{
		Script: RWScripts.Adopt, Keys: l.keys(a.Token), Channel: l.channel, Acknowledged: true,
		Args: a.adopting(WriterField(a.Owner), WriterField(other), l.TokenTTL),
	}
}

// Retain leaves it to nobody for a while.
func (l *Write) Retain(owner string, from int, nobody string, rest time.Duration) script.Request {
	return script.Request{
		Script: RWScripts.Retain, Keys: l.keys(false), Channel: l.channel,
		Args: []string{WriterReleased, WriterField(owner), strconv.Itoa(from), WriterField(nobody), millis(rest)},
	}
}

// Force takes it from the writer.
func (l *Write) Force(holders []string) script.Request {
	args := append(make([]string, 0, 1+len(holders)), WriterReleased)
	for _, owner := range holders {
		args = append(args, WriterField(owner))
	}
	return script.Request{Script: RWScripts.Force, Keys: l.keys(false), Channel: l.channel, Args: args}
}

// Inspect asks who holds it, for reading or writing.
func (l *Write) Inspect() script.Request {
	return script.Request{Script: RWScripts.Inspect, Keys: l.keys(l.Fenced), Args: []string{flag(l.Fenced)}}
}

// Leave takes the owner out of the line, and gives back what it was granted meanwhile.
func (l *Write) Leave(owner string) script.Request {
	return script.Request{
		Script: RWScripts.Leave, Keys: l.keys(false), Channel: l.channel, Args: []string{WriterReleased, WriterField(owner)},
	}
}

// Channel is one for all.
func (l *Write) Channel(string) string { return l.channel }
