package demo

import (
	"time"

	"github.com/holdfast-go/holdfast"
)

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
	<-hold.Context().Done()
	told := time.Since(at)
	s.expectLost(hold)
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
	s.expectLost(hold)
	s.pointf("The holder's context ended with ErrLost while the key still had %s to live: nobody else could have "+
		"had the lock yet.", millis(left))
	s.measuredf("Network cut: the holder knew %s before its key could expire.", millis(left))
	promise(left > 0, "the holder learnt of its loss when the key was gone already")
}
