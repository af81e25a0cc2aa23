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

// victim is a lock whose holder is killed.
type victim struct {
	what string // "lock" or "permit"
	kind string // as [Hold] knows it
	name string
	lock func(*holdfast.Client) holdfast.Locker
	left func(context.Context) (time.Duration, error) // of the holder's lease
	tell string                                       // how the reader knows that
}

// crash kills a process that holds a lock.
func (s *show) crash(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("Another process holds the lock and renews it, with a lease of %s. A waiter stands by. "+
		"Then the process is killed (SIGKILL): it cannot give anything back. When its lease has run out the lock is free.",
		seconds(crashLease)))
	name := s.key("crash")
	return s.kill(ctx, victim{
		what: "lock", kind: mutexKind, name: name,
		lock: func(c *holdfast.Client) holdfast.Locker { return c.NewMutex(name) },
		left: func(ctx context.Context) (time.Duration, error) { return s.pttl(ctx, name) },
		tell: "PTTL",
	})
}

// kill starts a process that holds, lets a waiter come, and kills the process.
func (s *show) kill(ctx context.Context, v victim) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	holder, err := s.Holder(ctx, v.kind, v.name, crashLease)
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
	go func() { got <- take(ctx, v.lock(client)) }()
	if err := s.stand(ctx, v, got); err != nil {
		return err
	}
	at := time.Now()
	killed = true
	if err := holder.Kill(); err != nil {
		return err
	}
	left, err := v.left(ctx)
	if err != nil {
		return err
	}
	s.Stage.Point(fmt.Sprintf("Process %d is killed. Its lease had %s left.", holder.Pid(), seconds(left)))
	return s.takeOver(ctx, v, got, at, left)
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
func (s *show) stand(ctx context.Context, v victim, got chan taken) error {
	end := time.NewTimer(beforeCrash)
	defer end.Stop()
	for {
		if err := s.showLeft(ctx, v, "holder lives, one waits"); err != nil {
			return err
		}
		select {
		case t := <-got:
			return errors.Join(fmt.Errorf("the waiter got the %s while another process held it", v.what), t.err)
		case <-end.C:
			return nil
		case <-time.After(sample):
		}
	}
}

// showLeft shows what is left of the holder's lease.
func (s *show) showLeft(ctx context.Context, v victim, words string) error {
	left, err := v.left(ctx)
	if err == nil {
		s.drawTTL(v.tell, left, crashLease, words)
	}
	return err
}

func (s *show) drawTTL(tell string, ttl, lease time.Duration, words string) {
	width := max(4, min(20, s.Stage.Width()-42))
	line := fmt.Sprintf("%s %4d ms  %s  %s", tell, ttl.Milliseconds(), bar(ttl, lease, width), words)
	s.Stage.Live([]string{line}, line)
}

// takeOver waits until the waiter has it.
func (s *show) takeOver(ctx context.Context, v victim, got chan taken, killed time.Time, left time.Duration) error {
	tick := time.NewTicker(sample)
	defer tick.Stop()
	for {
		select {
		case t := <-got:
			s.Stage.Keep()
			return s.judgeTakeOver(ctx, v, t, t.at.Sub(killed), left)
		case <-tick.C:
			if err := s.showLeft(ctx, v, "holder is dead, one waits"); err != nil {
				return err
			}
		}
	}
}

func (s *show) judgeTakeOver(ctx context.Context, v victim, t taken, took, left time.Duration) error {
	if t.err != nil {
		return t.err
	}
	if err := t.hold.Unlock(); err != nil {
		return err
	}
	s.Stage.Point(fmt.Sprintf("The waiter has the %s %s after the kill, %s after the lease had run out. "+
		"A crash costs at most the lease; choose it by that.", v.what, seconds(took), millis(max(0, took-left))))
	s.measuredf("Crash: taken over %s after the kill; the lease was %s, %s of it left.",
		seconds(took), seconds(crashLease), seconds(left))
	switch {
	case took < left-early:
		return fmt.Errorf("the %s was taken over %v after the kill, although %v of the lease were left", v.what, took, left)
	case took > left+late:
		return fmt.Errorf("the %s was taken over only %v after the lease had run out", v.what, took-left)
	}
	return context.Cause(ctx)
}
