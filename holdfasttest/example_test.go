package holdfasttest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
)

// ctx is the context of a request, or of a whole program.
var ctx = context.Background()

// connect returns a client. A program would give it a driver on its own Redis client:
// goredisdriver.New(rdb), or rueidisdriver.New(client).
func connect(options ...holdfast.ClientOption) (client *holdfast.Client, stop func()) {
	server, err := memdriver.NewServer()
	if err != nil {
		panic(err)
	}
	client, err = holdfast.New(server.Driver(), options...)
	if err != nil {
		panic(err)
	}
	return client, func() {
		if err := client.Close(); err != nil {
			log.Print(err)
		}
		server.Close()
	}
}

func Example_mutex() {
	client, stop := connect()
	defer stop()

	mu := client.NewMutex("orders:42")
	hold, err := mu.Lock(ctx)
	if err != nil {
		panic(err) // ctx ended, or Redis failed: nothing is held
	}
	defer hold.Unlock() // see Example_loss
	fmt.Println("inside", hold.Name())
	// Output: inside orders:42
}

func Example_do() {
	client, stop := connect()
	defer stop()

	err := holdfast.Do(ctx, client.NewMutex("orders:42"), func(ctx context.Context, hold *holdfast.Hold) error {
		fmt.Println("inside", hold.Name(), ctx.Err())
		return errors.New("the order is gone")
	}, holdfast.Wait(5*time.Second))
	fmt.Println(err)
	// Output:
	// inside orders:42 <nil>
	// the order is gone
}

func Example_doNested() {
	client, stop := connect()
	defer stop()
	job, account := client.NewMutex("jobs:nightly"), client.NewMutex("account:7")
	nightly := func() error {
		return holdfast.Do(ctx, job, func(ctx context.Context, _ *holdfast.Hold) error {
			fmt.Println("the job runs")
			return holdfast.Do(ctx, account, func(context.Context, *holdfast.Hold) error { return nil }, holdfast.Wait(0))
		}, holdfast.Wait(0))
	}

	for _, busy := range []*holdfast.Mutex{job, account} {
		hold, err := busy.Lock(ctx)
		if err != nil {
			panic(err)
		}
		err = nightly()
		var locked *holdfast.LockedError
		fmt.Println(errors.Is(err, holdfast.ErrLocked), errors.As(err, &locked) && locked.Name == job.Name())
		if err := hold.Unlock(); err != nil {
			panic(err)
		}
	}
	// Output:
	// true true
	// the job runs
	// true false
}

func Example_tryLock() {
	client, stop := connect()
	defer stop()
	mu := client.NewMutex("nightly")
	hold, err := mu.Lock(ctx)
	if err != nil {
		panic(err)
	}

	_, err = mu.TryLock(ctx)
	var locked *holdfast.LockedError
	switch {
	case errors.As(err, &locked):
		fmt.Println("held by another:", locked.Holder == hold.Owner())
	case err != nil:
		fmt.Println("Redis failed:", err)
	}
	fmt.Println(hold.Unlock())
	// Output:
	// held by another: true
	// <nil>
}

func Example_wait() {
	client, stop := connect()
	defer stop()
	mu := client.NewMutex("report")
	if _, err := mu.Lock(ctx); err != nil {
		panic(err)
	}

	// At most so long, and then at most a minute.
	_, err := mu.Lock(ctx, holdfast.Wait(200*time.Millisecond), holdfast.FixedLease(time.Minute))
	fmt.Println(errors.Is(err, holdfast.ErrLocked))
	// Output: true
}

func Example_reentrancy() {
	client, stop := connect()
	defer stop()
	mu := client.NewMutex("account:7")

	outer, err := mu.Lock(ctx)
	if err != nil {
		panic(err)
	}
	// Under the hold's context the lock is held already, so it is counted, not waited for.
	inner, err := mu.Lock(outer.Context())
	if err != nil {
		panic(err)
	}
	state, err := mu.Inspect(ctx)
	fmt.Println(state.Count(outer.Owner()), err)
	fmt.Println(inner.Unlock(), outer.Unlock())
	// Output:
	// 2 <nil>
	// <nil> <nil>
}

func Example_loss() {
	client, stop := connect()
	defer stop()
	mu := client.NewMutex("orders:42")
	hold, err := mu.Lock(ctx)
	if err != nil {
		panic(err)
	}
	if _, err := mu.ForceUnlock(ctx); err != nil { // somebody takes it away
		panic(err)
	}

	<-hold.Context().Done() // whatever works under it stops
	var lost *holdfast.LostError
	if errors.As(context.Cause(hold.Context()), &lost) {
		fmt.Println(lost.Reason)
	}
	fmt.Println(errors.Is(hold.Unlock(), holdfast.ErrLost)) // look at it, as at the error of a file's Close
	// Output:
	// the server says that it is not held
	// true
}

func Example_fencing() {
	client, stop := connect()
	defer stop()
	mu := client.NewMutex("ledger", holdfast.Fenced())

	var newest int64 // in the database, next to the row
	write := func(token int64) string {
		if token < newest {
			return "refused"
		}
		newest = token
		return "written"
	}
	first, err := mu.Lock(ctx)
	if err != nil {
		panic(err)
	}
	if _, err := mu.ForceUnlock(ctx); err != nil { // it does not know yet
		panic(err)
	}
	second, err := mu.Lock(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(write(second.Token()))
	fmt.Println(write(first.Token()))
	// Output:
	// written
	// refused
}

func Example_fairMutex() {
	client, stop := connect()
	defer stop()

	// Whoever has waited longest, on whichever machine, is next.
	hold, err := client.NewFairMutex("printer").Lock(ctx, holdfast.Wait(time.Minute))
	if err != nil {
		panic(err)
	}
	fmt.Println(hold.Unlock())
	// Output: <nil>
}

func Example_rwMutex() {
	client, stop := connect()
	defer stop()
	rw := client.NewRWMutex("catalogue")

	one, err1 := rw.RLock(ctx)
	two, err2 := rw.RLock(ctx)
	fmt.Println("two read:", err1, err2)
	_, err := rw.TryLock(ctx)
	fmt.Println("nobody writes:", errors.Is(err, holdfast.ErrLocked))
	fmt.Println(one.Unlock(), two.Unlock())

	write, err := rw.Lock(ctx)
	if err != nil {
		panic(err)
	}
	read, err := rw.Downgrade(write) // no other writer gets in between
	if err != nil {
		panic(err)
	}
	fmt.Println("reads on:", read.Context().Err() == nil, write.Context().Err())
	fmt.Println(read.Unlock())
	// Output:
	// two read: <nil> <nil>
	// nobody writes: true
	// <nil> <nil>
	// reads on: true context canceled
	// <nil>
}

func Example_permitSemaphore() {
	client, stop := connect()
	defer stop()

	// At most three exports at a time; one that crashes gives its place back.
	exports := client.NewPermitSemaphore("exports", holdfast.Permits(3))
	hold, err := exports.Acquire(ctx, 2)
	if err != nil {
		panic(err)
	}
	_, err = exports.TryAcquire(ctx, 2)
	var short *holdfast.PermitsError
	if errors.As(err, &short) {
		fmt.Printf("%d of %d available\n", short.Available, short.Total)
	}
	fmt.Println(hold.Unlock())
	// Output:
	// 1 of 3 available
	// <nil>
}

func Example_unleasedSemaphore() {
	client, stop := connect()
	defer stop()

	budget := client.NewUnleasedSemaphore("budget", holdfast.Permits(10))
	if err := budget.Acquire(ctx, 4, holdfast.Wait(time.Second)); err != nil {
		panic(err)
	}
	state, err := budget.Inspect(ctx)
	fmt.Println(state.Available, err)
	fmt.Println(budget.Release(4)) // by whomever
	// Output:
	// 6 <nil>
	// <nil>
}

func Example_latch() {
	client, stop := connect()
	defer stop()

	imports := client.NewLatch("imports:monday")
	if _, err := imports.TrySetCount(ctx, 2); err != nil {
		panic(err)
	}
	for range 2 {
		go func() { _ = imports.CountDown() }()
	}
	fmt.Println("all are done:", imports.Await(ctx))
	// Output: all are done: <nil>
}

func Example_multiLock() {
	client, stop := connect()
	defer stop()

	// Two transfers in opposite directions do not wait for each other.
	transfer := holdfast.NewMultiLock(client.NewMutex("account:9"), client.NewMutex("account:7"))
	hold, err := transfer.Lock(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(hold.Name())
	fmt.Println(hold.Unlock())
	// Output:
	// account:7+account:9
	// <nil>
}

func Example_redLock() {
	var lockers []holdfast.Locker
	for range 3 { // independent servers
		client, stop := connect()
		defer stop()
		lockers = append(lockers, client.NewMutex("leader"))
	}
	hold, err := holdfast.NewRedLock(lockers...).Lock(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(hold.Parts()) >= 2, hold.Unlock())
	// Output: true <nil>
}

func Example_lead() {
	client, stop := connect()
	defer stop()

	// One of several processes leads. When it crashes, another follows within 5 s.
	err := holdfast.Lead(ctx, client.NewMutex("scheduler"), func(ctx context.Context, _ *holdfast.Hold) error {
		fmt.Println("leading:", ctx.Err() == nil)
		return holdfast.Stop(nil) // else it would go on until ctx ends
	}, holdfast.RenewedLease(5*time.Second))
	fmt.Println(err)
	// Output:
	// leading: true
	// <nil>
}

func Example_minHold() {
	client, stop := connect()
	defer stop()

	// A job that starts on every machine at the same minute runs on one of them, though
	// it is done before the clock of the last machine has come to that minute.
	job := client.NewMutex("hourly")
	run := func() error {
		return holdfast.Do(ctx, job, func(context.Context, *holdfast.Hold) error {
			fmt.Println("it runs")
			return nil
		}, holdfast.Wait(0), holdfast.MinHold(time.Minute))
	}
	fmt.Println(run())
	fmt.Println(errors.Is(run(), holdfast.ErrLocked))
	// Output:
	// it runs
	// <nil>
	// true
}

func Example_hooks() {
	waits := 0
	client, stop := connect(holdfast.WithHooks(holdfast.Hooks{
		OnAcquire: func(_ context.Context, e holdfast.Event) { fmt.Println("acquired", e.Kind, e.Name) },
		OnRelease: func(_ context.Context, e holdfast.Event) { fmt.Println("released", e.Kind, e.Name, e.Err) },
		OnWait:    func(context.Context, holdfast.Event) { waits++ },
	}))
	defer stop()

	hold, err := client.NewMutex("orders:42").Lock(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(hold.Unlock(), waits)
	// Output:
	// acquired mutex orders:42
	// released mutex orders:42 <nil>
	// <nil> 0
}

func Example_log() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "held" || a.Key == "owner" { // they are others each time
				return slog.Attr{}
			}
			return a
		},
	}))
	lost := make(chan struct{})
	client, stop := connect(holdfast.WithHooks(holdfast.LogHooks(logger, time.Second)), holdfast.WithHooks(holdfast.Hooks{
		OnLost: func(context.Context, holdfast.Event) { close(lost) },
	}))
	defer stop()

	mu := client.NewMutex("orders:42")
	hold, err := mu.Lock(ctx)
	if err != nil {
		panic(err)
	}
	if _, err := mu.ForceUnlock(ctx); err != nil {
		panic(err)
	}
	<-lost
	fmt.Println(errors.Is(hold.Unlock(), holdfast.ErrLost))
	// Output:
	// level=ERROR msg="holdfast: lost" lock=orders:42 kind=mutex error="holdfast: \"orders:42\": the hold was lost: the server says that it is not held"
	// true
}

func Example_inspect() {
	client, stop := connect()
	defer stop()
	rw := client.NewRWMutex("catalogue")
	hold, err := rw.RLock(ctx, holdfast.FixedLease(time.Minute))
	if err != nil {
		panic(err)
	}

	state, err := rw.Inspect(ctx) // one round trip; then read
	if err != nil {
		panic(err)
	}
	for _, holder := range state.Holders {
		fmt.Println(holder.Mode, holder.Count, holder.TTL <= time.Minute)
	}
	fmt.Println(state.Locked(), state.HeldBy(hold.Owner()))
	// Output:
	// read 1 true
	// true true
}

func Example_transfer() {
	client, stop := connect()
	defer stop()
	mu := client.NewMutex("import")
	hold, err := mu.Lock(ctx)
	if err != nil {
		panic(err)
	}

	owner, err := hold.Detach() // tell it to the process that goes on
	if err != nil {
		panic(err)
	}
	adopted, err := mu.Adopt(ctx, owner)
	if err != nil {
		panic(err)
	}
	fmt.Println(adopted.Unlock())
	// Output: <nil>
}

func Example_shutdown() {
	client, stop := connect()
	defer stop()
	hold, err := client.NewMutex("import").Lock(ctx)
	if err != nil {
		panic(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { _ = hold.Unlock() })

	// At SIGTERM: what is held may end by itself, for at most 20 s.
	bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	fmt.Println(client.Shutdown(bounded))
	// Output: <nil>
}
