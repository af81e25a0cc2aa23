package holdfasttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/faketime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Outside a bubble it keeps to real time.
func TestRealTime(t *testing.T) {
	mu := holdfasttest.Start(t).Client().NewMutex("x")
	hold, err := mu.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

// A lease of an hour ends in no time inside a bubble.
func TestFakeTime(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		redis := holdfasttest.Start(t)
		one, two := redis.Client(), redis.Client()
		if _, err := one.NewMutex("x").Lock(t.Context(), holdfast.FixedLease(time.Hour)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		hold, err := two.NewMutex("x").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < time.Hour || took > time.Hour+time.Second {
			t.Errorf("it took %v", took)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// A refusal is repeated, and told when there is no end of it.
func TestFailNext(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		redis := holdfasttest.Start(t)
		mu := redis.Client().NewMutex("x")
		reason := errors.New("loading the dataset")
		redis.FailNext(reason)
		start := time.Now()
		hold, err := mu.TryLock(t.Context())
		if err != nil || time.Since(start) == 0 {
			t.Fatalf("%v, after %v", err, time.Since(start))
		}
		for range 10_000 {
			redis.FailNext(reason)
		}
		if err := hold.Unlock(); !errors.Is(err, reason) {
			t.Errorf("Unlock: %v", err)
		}
		redis.Away()
		time.Sleep(time.Minute)
	})
}

// A lost reply costs time, and the effect comes once.
func TestLoseNext(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		redis := holdfasttest.Start(t)
		s := redis.Client().NewUnleasedSemaphore("x", holdfast.Permits(3))
		if err := s.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		redis.LoseNext()
		start := time.Now()
		if err := s.Release(1); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < time.Second {
			t.Errorf("it took %v", took)
		}
		if got := redis.Do("GET", "x"); got != "3" {
			t.Errorf("%v permits", got)
		}
	})
}

// Without Redis holds are lost, and their users told before another can have the lock.
func TestAway(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		redis := holdfasttest.Start(t)
		client := redis.Client(holdfast.WithLease(9 * time.Second))
		hold, err := client.NewMutex("x").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		redis.Away()
		<-hold.Context().Done()
		var lost *holdfast.LostError
		if !errors.As(context.Cause(hold.Context()), &lost) || lost.Reason != holdfast.LostUnanswered {
			t.Error(context.Cause(hold.Context()))
		}
		redis.Back()
		if err := hold.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Error(err)
		}
		if hold, err = client.NewMutex("x").Lock(t.Context()); err != nil {
			t.Error(err)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// failures is a test that keeps what it is told, and ends when it is told to.
type failures struct {
	testing.TB
	cleanups []func()
	told     []string
}

func (f *failures) Helper()          {}
func (f *failures) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *failures) Errorf(format string, args ...any) {
	f.told = append(f.told, fmt.Sprintf(format, args...))
}

func (f *failures) end() {
	for _, c := range slices.Backward(f.cleanups) {
		c()
	}
}

// Who has not unlocked at the end of the test is told of which lock; what was lost, or closed, needs no Unlock.
func TestForgottenUnlock(t *testing.T) {
	f := &failures{TB: t}
	client := holdfasttest.Start(f).Client()
	for _, name := range []string{"x", "y"} {
		hold, err := client.NewMutex(name).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if name == "y" {
			defer hold.Unlock() // the client has closed by then
		}
	}
	f.end()
	if len(f.told) != 1 || !strings.Contains(f.told[0], `2 still held, of ["x" "y"]`) ||
		!strings.Contains(f.told[0], "an Unlock is missing") {
		t.Errorf("told %q", f.told)
	}

	f = &failures{TB: t}
	client = holdfasttest.Start(f).Client()
	_, err := client.NewMutex("x").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	hold, _ := holdfasttest.NewHold(f, t.Context(), "x")
	f.end()
	if len(f.told) != 0 || hold.Unlock() == nil {
		t.Errorf("told %q", f.told)
	}
}

// fake is a Locker as a program's own tests have it.
type fake struct {
	hold *holdfast.Hold
	err  error
}

func (f fake) Name() string { return "fake" }

func (f fake) Lock(context.Context, ...holdfast.LockOption) (*holdfast.Hold, error) {
	return f.hold, f.err
}

func (f fake) TryLock(context.Context, ...holdfast.TryOption) (*holdfast.Hold, error) {
	return f.hold, f.err
}

// A fake Locker hands out a real hold, which can be lost in the middle of the work.
func TestNewHold(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	hold, lose := holdfasttest.NewHold(t, ctx, "x")
	err := holdfast.Do(ctx, fake{hold: hold}, func(ctx context.Context, hold *holdfast.Hold) error {
		if ctx.Value(key{}) != "value" || hold.Name() != "x" {
			t.Errorf("%v, %q", ctx, hold.Name())
		}
		lose()
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, holdfast.ErrLost) {
		t.Error(err)
	}
	reason := errors.New("away")
	if err := holdfast.Do(ctx, fake{err: reason}, nil); !errors.Is(err, reason) {
		t.Error(err)
	}
}
