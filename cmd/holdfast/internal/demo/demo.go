// Package demo shows what the locks do, in words and live, scene by scene, and
// checks what it shows: whatever does not come out as promised is said, and
// makes the demo fail.
//
// A scene is a script of a play: a function that does one thing after the other, says what comes of it,
// and ends where something is not as promised. So it has no errors to pass on: [must], [check] and [promise] panic
// with a [broken], which [show.perform] makes an error of. They are for the goroutine of the scene alone.
//
// A [Stage] shows it, of which there are two: lines of text, and a picture on a terminal that changes. Run works in
// the goroutine that calls it; every goroutine of a scene ends before the scene does, or with its clients.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/goredisdriver"
)

const (
	// limit is how long the scenes may take, and sweep the cleaning up after them.
	limit = 18 * time.Second
	sweep = 6 * time.Second
)

// Config says what the demo shows, and where it plays.
type Config struct {
	// Show is what it shows.
	Show Show
	// Target is the Redis to use.
	Target *connect.Target
	// Server describes it to the reader.
	Server string
	// Holder starts a process that holds a mutex, or a permit of a semaphore, until
	// it is killed. It says so by one line on standard output.
	Holder func(ctx context.Context, kind, name string, lease time.Duration) (*Holder, error)
	// Stage is where it is shown.
	Stage Stage
}

// Show is what the demo shows of one kind of lock.
type Show struct {
	// Name is what the reader asks for.
	Name string
	// Also is by which other names.
	Also []string
	// About is what to expect, in half a sentence.
	About string

	// Servers describes the servers that it brings itself; empty: it plays on any.
	Servers string

	intro  string // what stands in Redis
	scenes []scene
}

type scene struct {
	title string
	play  func(*show)
}

// Shows are all there are. Each is in a file of its own.
var Shows = []Show{mutexShow, fairShow, rwShow, semaphoreShow, fencedShow, multiShow, redLockShow, latchShow}

// Find returns the one of a name.
func Find(name string) (Show, bool) {
	for _, s := range Shows {
		if s.Name == name || slices.Contains(s.Also, name) {
			return s, true
		}
	}
	return Show{}, false
}

// Names are by what names they are found.
func Names() (names []string) {
	for _, s := range Shows {
		names = append(append(names, s.Name), s.Also...)
	}
	return names
}

// show is one run of the demo.
type show struct {
	Config

	rdb     redis.UniversalClient
	prefix  string
	keys    []string // that the scenes have used
	lasting []string // the same, of those that are meant to outlive the scene, so the demo removes them in the end
	summary []string

	ctx  context.Context // ends with the scene
	ends []func()        // what a scene does at its end, the last one first
}

// Run plays the demo. It returns an [exit.Error] if anything was not as it
// should be, and the context's cause if ctx ended.
func Run(ctx context.Context, cfg Config) error {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		exit.Because(exit.Failed, "the demo was not over after %v", limit))
	defer cancel()
	s := &show{Config: cfg, rdb: cfg.Target.Client(cfg.Target.Dial)}
	s.prefix = "holdfast-demo:" + strings.ToLower(rand.Text()[:8])
	defer s.rdb.Close() //nolint:errcheck // nothing depends on it any more
	if err := s.rdb.Ping(ctx).Err(); err != nil {
		return exit.Because(exit.Unavailable, "Redis (%s) cannot be used: %v", cfg.Target, connect.Explain(err))
	}
	s.sayf("Everything below happens live on %s. %s", cfg.Server, cfg.Show.intro)
	err := s.play(ctx)
	if swept := s.sweep(); err == nil {
		err = swept
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	if err != nil {
		return exit.Because(exit.Failed, "not as promised: %w", err)
	}
	s.Stage.title("Measured in this run")
	for _, line := range s.summary {
		s.pointf("%s", line)
	}
	took := seconds(time.Since(started)) + " in all."
	if n := len(s.keys) + len(s.lasting); n > 0 {
		took = fmt.Sprintf("%d keys used, 0 left behind; %s", n, took)
	}
	s.pointf("%s", took)
	return nil
}

func (s *show) play(ctx context.Context) error {
	for i, scene := range s.Show.scenes {
		s.Stage.title(fmt.Sprintf("%d of %d: %s", i+1, len(s.Show.scenes), scene.title))
		if err := s.perform(ctx, scene); err != nil {
			return fmt.Errorf("scene %d: %w", i+1, err)
		}
	}
	return nil
}

// broken is what a scene panics with if something is not as promised.
type broken struct{ error }

// perform plays a scene, and ends what it has begun.
func (s *show) perform(ctx context.Context, scene scene) (err error) {
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(ctx)
	defer func() {
		cancel()
		for _, end := range slices.Backward(s.ends) {
			end()
		}
		s.ends = nil
		switch r := recover().(type) {
		case nil:
		case broken:
			err = r.error
		default:
			panic(r)
		}
	}()
	scene.play(s)
	return context.Cause(s.ctx)
}

// check ends the scene if there is an error.
func check(err error) {
	if err != nil {
		panic(broken{err})
	}
}

// must is the value of what cannot fail, or ends the scene.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// promise ends the scene with what is said otherwise, unless it is kept.
func promise(kept bool, otherwise string, args ...any) {
	if !kept {
		panic(broken{fmt.Errorf(otherwise, args...)})
	}
}

// bullet is what a result begins with.
const bullet = "  * "

// sayf writes what the reader sees, and why it matters, pointf a result. measuredf adds a line to the summary.
func (s *show) sayf(format string, args ...any) { s.Stage.write("", fmt.Sprintf(format, args...)) }

func (s *show) pointf(format string, args ...any) {
	s.Stage.write(bullet, fmt.Sprintf(format, args...))
}

func (s *show) measuredf(format string, args ...any) {
	s.summary = append(s.summary, fmt.Sprintf(format, args...))
}

// atEnd has the scene do something at its end.
func (s *show) atEnd(end func()) { s.ends = append(s.ends, end) }

// key names the lock of a scene, and minds its key and those beside it.
func (s *show) key(name string, beside ...func(string) string) string {
	key := s.prefix + ":" + name
	s.keys = append(s.keys, key)
	for _, of := range beside {
		s.keys = append(s.keys, of(key))
	}
	return key
}

// sweep removes what the scenes have left, which is nothing but the lasting keys
// unless one failed or was interrupted, and makes sure.
func (s *show) sweep() error {
	ctx, cancel := context.WithTimeout(context.Background(), sweep)
	defer cancel()
	var left []string
	for _, key := range slices.Concat(s.lasting, s.keys) {
		n, err := s.rdb.Del(ctx, key).Result()
		if err != nil {
			return fmt.Errorf("cleaning up: %w", err)
		}
		if n > 0 && !slices.Contains(s.lasting, key) {
			left = append(left, key)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("the keys %s were left behind, and have been removed", strings.Join(left, ", "))
	}
	return nil
}

// client returns a client of its own, as another process would have.
func (s *show) client(options ...holdfast.ClientOption) *holdfast.Client {
	return s.clientOf(s.Target, s.Target.Dial, options...)
}

// clientOf is client for a server, and how to connect to it.
func (s *show) clientOf(t *connect.Target, dial connect.Dial, options ...holdfast.ClientOption) *holdfast.Client {
	rdb := t.Client(dial)
	s.atEnd(func() { _ = rdb.Close() })
	client := must(holdfast.New(goredisdriver.New(rdb), append(t.ClientOptions(), options...)...))
	s.atEnd(func() { connect.CloseWithin(sweep/4, client) }) // what it cannot clean up, sweep finds
	return client
}

// pttl reads a key's time to live from the server: 0 if there is no such key.
func (s *show) pttl(key string) time.Duration { return max(0, must(s.rdb.PTTL(s.ctx, key).Result())) }

// until shows how things stand until something comes, and returns it. It ends the scene when its context ends.
func until[T any](s *show, comes <-chan T, look func()) T {
	tick := time.NewTicker(frame)
	defer tick.Stop()
	for {
		select {
		case came := <-comes:
			return came
		case <-s.ctx.Done():
			check(context.Cause(s.ctx))
		case <-tick.C:
			look()
		}
	}
}

// pause waits for a while.
func (s *show) pause(d time.Duration) { until(s, time.After(d), func() {}) }

// eventually waits for a moment until something is so, and reports whether it is.
func (s *show) eventually(is func() bool) bool {
	for end := time.Now().Add(late); !is(); s.pause(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// taken is what a waiter got.
type taken struct {
	hold *holdfast.Hold
	at   time.Time
	err  error
}

// take waits for a lock in the background.
func (s *show) take(ctx context.Context, lock holdfast.Locker) <-chan taken {
	got := make(chan taken, 1)
	go func() {
		hold, err := lock.Lock(ctx)
		got <- taken{hold, time.Now(), err}
	}()
	return got
}

// nobody makes sure that none of those who wait has got in.
func nobody(what string, waiters ...<-chan taken) {
	for _, w := range waiters {
		select {
		case t := <-w:
			check(errors.Join(errors.New(what), t.err))
		default:
		}
	}
}

// expectLost waits until a hold has ended, and makes sure that it was lost.
func (s *show) expectLost(hold *holdfast.Hold, within time.Duration) {
	select {
	case <-hold.Context().Done():
	case <-time.After(within):
		promise(false, "the holder was not told within %v that it has lost its lock", within)
	}
	check(context.Cause(s.ctx))
	cause := context.Cause(hold.Context())
	promise(errors.Is(cause, holdfast.ErrLost), "the context ended because of %w, not ErrLost", cause)
}

// livef shows a line that changes.
func (s *show) livef(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.Stage.live([]string{line}, line)
}

// liveTTL shows what is left of a lease, with a bar of plain characters.
func (s *show) liveTTL(name string, ttl, lease time.Duration, words string) {
	width := max(4, min(20, s.Stage.width()-42))
	left := max(0, min(width, int(ttl*time.Duration(width)/lease)))
	bar := strings.Repeat("#", left) + strings.Repeat("-", width-left)
	s.livef("%s %4d ms  %s  %s", name, ttl.Milliseconds(), bar, words)
}

// seconds writes a duration for readers.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// millis writes a short duration for readers.
func millis(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
