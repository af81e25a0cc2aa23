package protocol

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

var permitsScripts = struct {
	acquire, release, leave, renew, force, inspect, lease, set, add *driver.Script
}{
	acquire: load("permits", "acquire"),
	release: load("permits", "release"),
	leave:   load("permits", "leave"),
	renew:   load("permits", "renew"),
	force:   load("permits", "force"),
	inspect: load("permits", "inspect"),
	lease:   load("permits", "lease"),
	set:     load("permits", "set"),
	add:     load("permits", "add"),
}

// Permits is the semaphore whose permits have leases: how many are available stands
// at its name, and beside it the ids of those that are held, 16 bytes each, with
// the times at which they expire. Whose they are does not stand in Redis.
type Permits struct{ Name string }

func (p Permits) request(s *driver.Script, args ...string) script.Request {
	return script.Request{
		Script: s, Keys: []string{p.Name, PermitsKey(p.Name)}, Channel: SemaphoreChannel(p.Name), Args: args,
	}
}

// once is a call whose id Redis keeps for a while.
func (p Permits) once(s *driver.Script, args []string) script.Request {
	request := p.request(s, args...)
	request.Keys = append(request.Keys, CallsKey(p.Name))
	request.Once = true
	return request
}

// Set sets how many permits there are: always, or only if that was never set.
func (p Permits) Set(o Once, n int, always bool) script.Request {
	return p.once(permitsScripts.set, append(o.args(int64(n)), flag(always)))
}

// Add makes so many more of them.
func (p Permits) Add(o Once, delta int) script.Request {
	return p.once(permitsScripts.add, o.args(int64(delta)))
}

// Lease asks that a permit is held for at least d. Its holder is told.
func (p Permits) Lease(id string, d time.Duration) script.Request {
	return p.request(permitsScripts.lease, id, millis(d), PermitsChannel(p.Name))
}

// GiveBack releases these permits, if all of them are held, and makes their holders check them.
func (p Permits) GiveBack(ids []string) script.Request { return p.force(ids, len(ids)) }

// force releases those of these permits that are held, if at least so many are, and makes their holders check them.
func (p Permits) force(ids []string, least int) script.Request {
	return p.request(permitsScripts.force, append([]string{strconv.Itoa(least), PermitsChannel(p.Name)}, ids...)...)
}

// Force releases those of these permits, in hexadecimal digits, that are held.
func (p Permits) Force(holders []string) script.Request {
	raw := make([]string, len(holders))
	for i, id := range holders {
		b, _ := hex.DecodeString(id) // inspect has written it, of whatever length
		raw[i] = string(b)
	}
	return p.force(raw, 1)
}

// Inspect asks for the permits that are held.
func (p Permits) Inspect() script.Request { return p.request(permitsScripts.inspect) }

// PermitSet is several permits of a [Permits] that are acquired, renewed and released
// as one.
type PermitSet struct {
	Permits

	IDs []string // raw
}

// Acquire asks for all of them.
func (s PermitSet) Acquire(a Acquire) script.Request {
	request := s.request(permitsScripts.acquire, millis(a.Lease), s.waiter(a.Owner), "0", "1", "", a.entry(), s.ids())
	request.Acknowledged = true
	return request
}

// ids returns all of them as scripts read them, if each has [PermitID] bytes.
func (s PermitSet) ids() string { return strings.Join(s.IDs, "") }

// waiter is the seat of lua/permits.lua: a waiter of the owner's client. An owner may wait for permits several times at once, and each time
// they have other ids.
func (s PermitSet) waiter(owner string) string {
	client, _, _ := strings.Cut(owner, ":")
	var n uint64
	for _, b := range []byte(s.IDs[0])[min(len(s.IDs[0]), PermitPrefix+len(PermitMark)):] {
		n = n<<8 | uint64(b)
	}
	return client + ":" + strconv.FormatUint(n, 10)
}

// Release releases all of them, although others may have released some: one of them is enough for the hold not to have been lost.
func (s PermitSet) Release(owner string, _, _ int) script.Request {
	return s.end(permitsScripts.release, owner)
}

// end returns the request of a script after which none of them is held. It takes no payload, and no count but 1 and 0.
func (s PermitSet) end(which *driver.Script, owner string) script.Request {
	return s.request(which, "", s.waiter(owner), "1", "0", "0", "", s.ids())
}

// Renew extends them.
func (s PermitSet) Renew(_ string, _ int, ttl time.Duration) script.Request {
	return script.Request{
		Script: permitsScripts.renew, Keys: []string{PermitsKey(s.Name)}, Args: []string{"", millis(ttl), s.ids()},
	}
}

// RenewScript is one for all.
func (PermitSet) RenewScript() *driver.Script { return permitsScripts.renew }

// ReadRenewal reads how many of them are held, for how long, and which are not.
func (PermitSet) ReadRenewal(r script.Reply, i int) (Renewal, error) {
	texts, err := r.List(i)
	if err != nil {
		return Renewal{}, err
	}
	if len(texts) < 4 {
		return Renewal{}, fmt.Errorf("reply has no four numbers at %d", i+2)
	}
	var held, first, last, end int64
	if _, err := fmt.Sscan(strings.Join(texts[:4], " "), &held, &first, &last, &end); err != nil {
		return Renewal{}, fmt.Errorf("reply has no four numbers at %d: %w", i+2, err)
	}
	found := Renewal{
		Count: held, Lives: true, Left: time.Duration(min(first, mostMillis)) * time.Millisecond,
		Gone: time.Duration(min(last, mostMillis)) * time.Millisecond, Missing: texts[4:],
	}
	if end >= 0 {
		found.Ends, found.End = true, time.Duration(min(end, mostMillis))*time.Millisecond
	}
	return found, nil
}

// Lifetime is until the semaphore ends, and the permits with it, if that is before the lease does.
func (PermitSet) Lifetime(r script.Reply) time.Duration {
	if n, found := r.Number(0); found {
		return time.Duration(min(n, mostMillis)) * time.Millisecond
	}
	return MaxLease
}

// MaxPermits is how many permits one hold can have.
const MaxPermits = 4096

// Weight is one place, and more of many: nobody else is served while Redis renews a great many permits.
func (s PermitSet) Weight(places int) int { return 1 + len(s.IDs)*places/MaxPermits }

// Adopt has nothing to ask: permits have no owner.
func (PermitSet) Adopt(Acquire, string) script.Request { return script.Request{} }

// Retain has nothing to ask: permits have no owner.
func (PermitSet) Retain(string, int, string, time.Duration) script.Request { return script.Request{} }

// Leave removes the waiter's entry, and releases what it was granted meanwhile.
func (s PermitSet) Leave(owner string) script.Request { return s.end(permitsScripts.leave, owner) }

// Channel is one for all.
func (s PermitSet) Channel(string) string { return SemaphoreChannel(s.Name) }
