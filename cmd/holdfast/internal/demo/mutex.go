package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

const (
	workers   = 5
	contended = 2500 * time.Millisecond
)

// mutexShow is what the demo shows unless it is asked for something else.
var mutexShow = Show{
	Name:  mutexKind,
	About: "one owner at a time; reentrancy, renewal, a crash, losses (20 s)",
	intro: "A lock there is one key, which expires when its lease ends, so that a crashed holder cannot block others " +
		"for ever.",
	scenes: []scene{
		{"One lock, several workers, nobody overlaps", (*show).contention},
		{"The same owner may lock again", (*show).reentrancy},
		{"Work that takes longer than the lease", (*show).renewal},
		{"The holder crashes", (*show).crash},
		{"A holder that loses its lock is told", (*show).loss},
	},
}

// contention lets workers, each like a process of its own, want one lock.
func (s *show) contention() {
	s.sayf("%d workers want one lock, each with a client of its own, like %d processes. "+
		"Each worker times its stay by itself; the stays are compared afterwards.", workers, workers)
	name := s.key("contended")
	a := &arena{length: contended}
	s.enter(a, workers, actor{name: "worker", stay: between{50, 120}, rest: between{50, 200}},
		func(c *holdfast.Client, _ int) holdfast.Locker { return c.NewMutex(name) })
	s.enact(a)
	n, found := len(a.spans), clashes(a.spans, everybody)
	s.pointf("%d stays, %d changes of holder, %d overlaps. Waiters do not poll: a release grants "+
		"the lock to the next one at once.", n, a.changes(), found)
	s.measuredf("Contention: %d stays by %d workers, %d overlaps.", n, workers, found)
	promise(found == 0, "%d pairs of stays overlap", found)
	promise(a.changes() > 0, "the lock never went from one worker to another")
}

// reentrancy locks twice as one owner, and reads after each step what stands in
// Redis.
func (s *show) reentrancy() {
	s.sayf("A function that holds a lock calls another one that takes the same lock. Under the context of the " +
		"first hold this does not block: it is the same owner. Redis counts; the lock is free when the count is 0. " +
		"This is what HGETALL answers, in the form of Redisson, so that Java sees the same lock:")
	mu := s.client().NewMutex(s.key("nested"))
	outer := must(mu.Lock(s.ctx))
	s.expectHash(mu.Name(), "Lock", counts(outer.Owner(), "1"))
	inner := must(mu.Lock(outer.Context()))
	s.expectHash(mu.Name(), "Lock again", counts(outer.Owner(), "2"))
	check(inner.Unlock())
	s.expectHash(mu.Name(), "Unlock", counts(outer.Owner(), "1"))
	check(outer.Unlock())
	s.expectHash(mu.Name(), "Unlock again", nil)
	s.measuredf("Reentrancy: one hash field, count 1, 2, 1, then no key.")
}

// counts is what stands in Redis for a mutex.
func counts(owner holdfast.Owner, times string) map[string]string {
	return map[string]string{owner.String(): times}
}

// expectHash reads a hash, shows it, and checks it. A nil one is no key.
func (s *show) expectHash(key, after string, want map[string]string) {
	hash := must(s.rdb.HGetAll(s.ctx, key).Result())
	fields := make([]string, 0, len(hash))
	for _, field := range slices.Sorted(maps.Keys(hash)) {
		fields = append(fields, fmt.Sprintf("%s -> %s", field, hash[field]))
	}
	if len(hash) == 0 {
		fields = []string{"(no key)"}
	}
	s.pointf("%s: %s", after, strings.Join(fields, ", "))
	promise(maps.Equal(hash, want), "after %q the hash should be %v, but is %v", after, want, hash)
}

const (
	renewedLease = 1500 * time.Millisecond
	renewedFor   = 3 * renewedLease
)

// renewal holds a lock for several leases.
func (s *show) renewal() {
	s.sayf("The lease is %s, the work takes %s. The watchdog renews the lease each third of it for as long as the "+
		"holder lives, so nobody has to guess how long work takes. This is the key's time to live, as the server tells "+
		"it (PTTL):", seconds(renewedLease), seconds(renewedFor))
	mu := s.client(holdfast.WithLease(renewedLease)).NewMutex(s.key("renewed"))
	hold := must(mu.Lock(s.ctx))
	began, renewals, last := time.Now(), 0, renewedLease
	until(s, time.After(renewedFor), func() {
		check(context.Cause(hold.Context()))
		ttl, held := s.pttl(mu.Name()), seconds(time.Since(began))
		promise(ttl > 0, "the key was gone after %s, although its holder lives", held)
		if ttl > last { // it only grows by a renewal
			renewals++
		}
		last = ttl
		s.liveTTL("PTTL", ttl, renewedLease, fmt.Sprintf("held %s, %s", held, text.Count(renewals, "renewal")))
	})
	s.Stage.keep()
	held := seconds(time.Since(began))
	check(errors.Join(context.Cause(hold.Context()), hold.Unlock()))
	s.pointf("Held for %s, three leases, with %s. Without them the key would have been gone after %s.",
		held, text.Count(renewals, "renewal"), seconds(renewedLease))
	s.measuredf("Watchdog: a lease of %s was held for %s.", seconds(renewedLease), held)
	promise(renewals >= 3, "%d renewals in %s are too few", renewals, held)
}

const (
	crashLease = 2 * time.Second
	// beforeCrash lets the holder renew once.
	beforeCrash = 900 * time.Millisecond
	// early and late are by how much a take-over may miss the end of the lease,
	// for the sake of slow networks and machines.
	early, late = 100 * time.Millisecond, 2 * time.Second
)

// victim is a lock whose holder is killed.
type victim struct {
	what string // "lock" or "permit"
	kind string // as [Hold] knows it
	name string
	lock func(*holdfast.Client) holdfast.Locker
	left func() time.Duration // of the holder's lease
}

// crash kills a process that holds a lock.
func (s *show) crash() {
	s.sayf("Another process holds the lock and renews it, with a lease of %s. A waiter stands by. "+
		"Then the process is killed (SIGKILL): it cannot give anything back. When its lease has run out the lock is free.",
		seconds(crashLease))
	name := s.key("crash")
	s.kill(victim{
		what: "lock", kind: mutexKind, name: name,
		lock: func(c *holdfast.Client) holdfast.Locker { return c.NewMutex(name) },
		left: func() time.Duration { return s.pttl(name) },
	})
}

// kill starts a process that holds, lets a waiter come, kills the process, and sees the waiter take over.
func (s *show) kill(v victim) {
	holder := must(s.Holder(s.ctx, v.kind, v.name, crashLease))
	s.atEnd(func() { _ = holder.Kill() }) // of one that is dead it fails
	got := s.take(s.ctx, v.lock(s.client()))
	until(s, time.After(beforeCrash), func() { s.liveTTL("lease", v.left(), crashLease, "holder lives, one waits") })
	nobody(fmt.Sprintf("the waiter got the %s while another process held it", v.what), got)
	killed := time.Now()
	check(holder.Kill())
	left := v.left()
	s.pointf("Process %d is killed. Its lease had %s left.", holder.Pid(), seconds(left))
	t := until(s, got, func() { s.liveTTL("lease", v.left(), crashLease, "holder is dead, one waits") })
	s.Stage.keep()
	check(t.err)
	check(t.hold.Unlock())
	took := t.at.Sub(killed)
	s.pointf("The waiter has the %s %s after the kill, %s after the lease had run out. "+
		"A crash costs at most the lease; choose it by that.", v.what, seconds(took), millis(max(0, took-left)))
	s.measuredf("Crash: taken over %s after the kill; the lease was %s, %s of it left.",
		seconds(took), seconds(crashLease), seconds(left))
	promise(took >= left-early, "the %s was taken over %v after the kill, although %v of the lease were left",
		v.what, took, left)
	promise(took <= left+late, "the %s was taken over only %v after the lease had run out", v.what, took-left)
}

const (
	// forcedLease is long, so that no renewal tells the holder by chance.
	forcedLease = 9 * time.Second
	// listens is when a holder is sure to listen for a forced unlock.
	listens = 1200 * time.Millisecond
	// toldLate is when the next renewal would have told the holder.
	toldLate = forcedLease / 3

	cutLease  = 3 * time.Second
	cutMargin = time.Second
	// beforeCut lets the holder renew once.
	beforeCut = 1200 * time.Millisecond
)

// loss takes locks away from their holders, in two ways.
func (s *show) loss() {
	s.sayf("Going on with work after the lock is gone is how data gets broken. A hold has a context that ends " +
		"when the lock is lost. First, an operator unlocks by force while the holder works:")
	s.forced()
	s.sayf("Second, the network is cut: the holder is up, but no renewal gets through. The lease is %s, and the holder "+
		"has asked to know %s before it ends, to have time to stop:", seconds(cutLease), seconds(cutMargin))
	s.cutOff()
}

// forced measures how soon a holder knows of a forced unlock.
func (s *show) forced() {
	name := s.key("forced")
	hold := must(s.client(holdfast.WithLease(forcedLease)).NewMutex(name).Lock(s.ctx))
	operator := s.client()
	s.pause(listens)
	at := time.Now()
	held := must(operator.NewMutex(name).ForceUnlock(s.ctx))
	promise(held, "the forced unlock found nothing to unlock")
	s.expectLost(hold, toldLate+late)
	told := time.Since(at)
	s.pointf("The holder's context ended with ErrLost %s after the operator's call began.", millis(told))
	s.measuredf("Forced unlock: the holder knew after %s.", millis(told))
	promise(told <= toldLate, "the holder heard of the forced unlock only after %v", told)
}

// cutOff measures how long before the end of the key a holder knows that it
// cannot renew it.
func (s *show) cutOff() {
	w := &cable{dial: s.Target.Dial}
	client := s.clientOf(s.Target, w.Dial, holdfast.WithLease(cutLease), holdfast.WithMargin(cutMargin))
	s.atEnd(func() { w.cut.Store(false) })
	name := s.key("cut")
	hold := must(client.NewMutex(name).Lock(s.ctx))
	tell := func(words string) { s.liveTTL("PTTL", s.pttl(name), cutLease, words) }
	until(s, time.After(beforeCut), func() { tell("renewed") })
	promise(hold.Context().Err() == nil, "the holder lost its lock before the network was cut")
	w.cut.Store(true)
	until(s, hold.Context().Done(), func() { tell(s.Stage.mark(bad, "cut off")) })
	left := s.pttl(name)
	s.liveTTL("PTTL", left, cutLease, s.Stage.mark(bad, "holder told: LOST"))
	s.Stage.keep()
	s.expectLost(hold, late)
	s.pointf("The holder's context ended with ErrLost while the key still had %s to live: nobody else could have "+
		"had the lock yet.", millis(left))
	s.measuredf("Network cut: the holder knew %s before its key could expire.", millis(left))
	promise(left > 0, "the holder learnt of its loss when the key was gone already")
}
