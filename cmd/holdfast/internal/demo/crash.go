package demo

import (
	"context"
	"errors"
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

// crash kills a process that holds a lock.
func (s *show) crash(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("Another process holds the lock and renews it, with a lease of %s. A waiter stands by. "+
		"Then the process is killed (SIGKILL): it cannot give anything back. When its lease has run out the lock is free.",
		seconds(crashLease)))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	name := s.key("crash")
	holder, err := s.Holder(ctx, name, crashLease)
	if err != nil {
		return err
	}
	killed := false
	defer func() {
		if !killed {
			_ = holder.Kill() // the scene has failed already
		}
	}()
	client, done, err := s.client(nil)
	if err != nil {
		return err
	}
	defer done()
	got := make(chan taken, 1)
	go func() { got <- take(ctx, client.NewMutex(name)) }()
	if err := s.stand(ctx, name, got); err != nil {
		return err
	}
	at := time.Now()
	killed = true
	if err := holder.Kill(); err != nil {
		return err
	}
	left, err := s.pttl(ctx, name)
	if err != nil {
		return err
	}
	s.Stage.Point(fmt.Sprintf("Process %d is killed. Its lease had %s left.", holder.Pid(), seconds(left)))
	return s.takeOver(ctx, name, got, at, left)
}

// taken is what a waiter got.
type taken struct {
	hold *holdfast.Hold
	at   time.Time
	err  error
}

func take(ctx context.Context, lock holdfast.Locker) taken {
	hold, err := lock.Lock(ctx)
	return taken{hold, time.Now(), err}
}

// stand lets the holder hold for a while.
func (s *show) stand(ctx context.Context, name string, got chan taken) error {
	end := time.NewTimer(beforeCrash)
	defer end.Stop()
	for {
		if err := s.showTTL(ctx, name, "holder lives, one waits"); err != nil {
			return err
		}
		select {
		case t := <-got:
			return errors.Join(errors.New("the waiter got the lock while another process held it"), t.err)
		case <-end.C:
			return nil
		case <-time.After(sample):
		}
	}
}

// showTTL shows the time to live of a key.
func (s *show) showTTL(ctx context.Context, name, words string) error {
	ttl, err := s.pttl(ctx, name)
	if err != nil {
		return err
	}
	s.drawTTL(ttl, crashLease, words)
	return nil
}

func (s *show) drawTTL(ttl, lease time.Duration, words string) {
	width := max(4, min(20, s.Stage.Width()-42))
	line := fmt.Sprintf("PTTL %4d ms  %s  %s", ttl.Milliseconds(), bar(ttl, lease, width), words)
	s.Stage.Live([]string{line}, line)
}

// takeOver waits until the waiter has the lock.
func (s *show) takeOver(ctx context.Context, name string, got chan taken, killed time.Time, left time.Duration) error {
	tick := time.NewTicker(sample)
	defer tick.Stop()
	for {
		select {
		case t := <-got:
			s.Stage.Keep()
			return s.judgeTakeOver(ctx, t, t.at.Sub(killed), left)
		case <-tick.C:
			if err := s.showTTL(ctx, name, "holder is dead, one waits"); err != nil {
				return err
			}
		}
	}
}

func (s *show) judgeTakeOver(ctx context.Context, t taken, took, left time.Duration) error {
	if t.err != nil {
		return t.err
	}
	if err := t.hold.Unlock(); err != nil {
		return err
	}
	s.Stage.Point(fmt.Sprintf("The waiter has the lock %s after the kill, %s after the lease had run out. "+
		"A crash costs at most the lease; choose it by that.", seconds(took), millis(max(0, took-left))))
	s.measuredf("Crash: taken over %s after the kill; the lease was %s, %s of it left.",
		seconds(took), seconds(crashLease), seconds(left))
	switch {
	case took < left-early:
		return fmt.Errorf("the lock was taken over %v after the kill, although %v of the lease were left", took, left)
	case took > left+late:
		return fmt.Errorf("the lock was taken over only %v after the lease had run out", took-left)
	}
	return context.Cause(ctx)
}
