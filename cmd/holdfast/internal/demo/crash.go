package demo

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

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
	tell string               // how the reader knows that
}

// crash kills a process that holds a lock.
func (s *show) crash() {
	s.sayf("Another process holds the lock and renews it, with a lease of %s. A waiter stands by. "+
		"Then the process is killed (SIGKILL): it cannot give anything back. When its lease has run out the lock is free.",
		seconds(crashLease))
	name := s.key("crash")
	s.kill(victim{
		what: "lock", kind: mutexKind, name: name, tell: "PTTL",
		lock: func(c *holdfast.Client) holdfast.Locker { return c.NewMutex(name) },
		left: func() time.Duration { return s.pttl(name) },
	})
}

// kill starts a process that holds, lets a waiter come, kills the process, and sees the waiter take over.
func (s *show) kill(v victim) {
	holder := must(s.Holder(s.ctx, v.kind, v.name, crashLease))
	s.atEnd(func() { _ = holder.Kill() }) // of one that is dead it fails
	got := s.take(s.ctx, v.lock(s.client()))
	until(s, time.After(beforeCrash), func() { s.liveTTL(v.tell, v.left(), crashLease, "holder lives, one waits") })
	nobody(fmt.Sprintf("the waiter got the %s while another process held it", v.what), got)
	killed := time.Now()
	check(holder.Kill())
	left := v.left()
	s.pointf("Process %d is killed. Its lease had %s left.", holder.Pid(), seconds(left))
	t := until(s, got, func() { s.liveTTL(v.tell, v.left(), crashLease, "holder is dead, one waits") })
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
