package demo

import (
	"context"
	"errors"
	"fmt"
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
func (s *show) loss(ctx context.Context) error {
	s.Stage.Say("Going on with work after the lock is gone is how data gets broken. A hold has a context that ends when the lock " +
		"is lost. First, an operator unlocks by force while the holder works:")
	if err := s.forced(ctx); err != nil {
		return err
	}
	s.Stage.Say(fmt.Sprintf("Second, the network is cut: the holder is up, but no renewal gets through. The lease is %s, and the holder "+
		"has asked to know %s before it ends, to have time to stop:", seconds(cutLease), seconds(cutMargin)))
	return s.cutOff(ctx)
}

// forced measures how soon a holder knows of a forced unlock.
func (s *show) forced(ctx context.Context) error {
	client, done, err := s.client(nil, holdfast.WithLease(forcedLease))
	if err != nil {
		return err
	}
	defer done()
	operator, over, err := s.client(nil)
	if err != nil {
		return err
	}
	defer over()
	name := s.key("forced")
	hold, err := client.NewMutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, listens); err != nil {
		return err
	}
	at := time.Now()
	if held, err := operator.NewMutex(name).ForceUnlock(ctx); err != nil || !held {
		return errors.Join(errors.New("the forced unlock found nothing to unlock"), err)
	}
	<-hold.Context().Done()
	told := time.Since(at)
	if err := expectLost(ctx, hold); err != nil {
		return err
	}
	s.Stage.Point(fmt.Sprintf("The holder's context ended with ErrLost %s after the operator's call began.", millis(told)))
	s.measuredf("Forced unlock: the holder knew after %s.", millis(told))
	if told > toldLate {
		return fmt.Errorf("the holder heard of the forced unlock only after %v", told)
	}
	return nil
}

// cutOff measures how long before the end of the key a holder knows that it
// cannot renew it.
func (s *show) cutOff(ctx context.Context) error {
	w := &cable{dial: s.Target.Dial}
	client, done, err := s.client(w.Dial, holdfast.WithLease(cutLease), holdfast.WithMargin(cutMargin))
	if err != nil {
		return err
	}
	defer done()
	defer w.cut.Store(false)
	name := s.key("cut")
	hold, err := client.NewMutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	if err := s.watchCut(ctx, name, hold, w); err != nil {
		return err
	}
	if !w.cut.Load() {
		return errors.New("the holder lost its lock before the network was cut")
	}
	left, err := s.pttl(ctx, name)
	if err != nil {
		return err
	}
	if err := expectLost(ctx, hold); err != nil {
		return err
	}
	s.Stage.Keep()
	s.Stage.Point(fmt.Sprintf("The holder's context ended with ErrLost while the key still had %s to live: nobody else could have "+
		"had the lock yet.", millis(left)))
	s.measuredf("Network cut: the holder knew %s before its key could expire.", millis(left))
	if left == 0 {
		return errors.New("the holder learnt of its loss when the key was gone already")
	}
	return nil
}

// watchCut cuts the cable after a while and returns when the holder knows.
func (s *show) watchCut(ctx context.Context, name string, hold *holdfast.Hold, w *cable) error {
	cut := time.NewTimer(beforeCut)
	defer cut.Stop()
	tick := time.NewTicker(sample)
	defer tick.Stop()
	words := "renewed"
	for {
		select {
		case <-hold.Context().Done():
			return s.showTTL(ctx, name, s.Stage.Mark(Bad, "holder told: LOST"))
		case <-cut.C:
			w.cut.Store(true)
			words = s.Stage.Mark(Bad, "cut off")
		case <-tick.C:
			if err := s.showTTL(ctx, name, words); err != nil {
				return err
			}
		}
	}
}

// showTTL shows the time to live of the key whose holder is cut off.
func (s *show) showTTL(ctx context.Context, name, words string) error {
	ttl, err := s.pttl(ctx, name)
	if err != nil {
		return err
	}
	s.drawTTL("PTTL", ttl, cutLease, words)
	return nil
}

// untilLost waits until a hold is lost, which it should be by now.
func untilLost(ctx context.Context, hold *holdfast.Hold) error {
	select {
	case <-hold.Context().Done():
		return expectLost(ctx, hold)
	case <-time.After(late):
		return errors.New("a holder was not told that its lock is somebody else's")
	}
}

// expectLost checks why the context of a hold has ended.
func expectLost(ctx context.Context, hold *holdfast.Hold) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if cause := context.Cause(hold.Context()); !errors.Is(cause, holdfast.ErrLost) {
		return fmt.Errorf("the context ended because of %w, not ErrLost", cause)
	}
	return nil
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
