package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"time"
)

const (
	jvmStart = time.Minute      // for it to compile the program and connect
	jvmStop  = 5 * time.Second  // after the end of its input, before it is killed
	jvmGrace = 10 * time.Second // for an answer, beyond what the cell may take
)

// redissonInJVM is Redisson itself.
func redissonInJVM(p jvmProgram, progress io.Writer) contender {
	return contender{
		name: "Redisson", client: inJVM, kinds: true,
		notes: "lock and unlock of the real one, " + p.redisson + " on " + p.java + ", in a process of its own with the JVM's and " +
			"Redisson's default settings; a thread and an RLock for each goroutine, and in place of several processes as many clients in " +
			"that one. It is warmed up before the first round. " +
			"Its watchdog renews its locks.",
		open: func(ctx context.Context, s setup) (session, error) { return startRedisson(ctx, p, s, progress) },
	}
}

// redissonSession owns a JVM, the goroutine that reads from it, and the one that
// waits for its end. It is used by one goroutine.
type redissonSession struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	lines  chan []byte // from its standard output; closed at its end
	cancel context.CancelFunc
	ended  chan struct{} // closed when the process has
}

// startRedisson returns when the JVM is connected and warm.
func startRedisson(ctx context.Context, p jvmProgram, s setup, progress io.Writer) (_ session, err error) {
	if _, err := fmt.Fprintf(progress, "warm  Redisson %s\n", p.redisson); err != nil {
		return nil, err
	}
	r, err := launchJVM(p, s, progress)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.cancel() // it is not needed any more, however busy it is
			err = errors.Join(err, r.close())
		}
	}()
	var hello struct {
		Ready bool `json:"ready"`
	}
	if err := r.answer(ctx, jvmStart, &hello); err != nil {
		return nil, err
	}
	return r, r.warmUp(ctx, s)
}

func launchJVM(p jvmProgram, s setup, stderr io.Writer) (*redissonSession, error) {
	// Not the context of the run: the process has to be waited for in any case.
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "java", "-cp", p.classpath, p.source, s.addr, //nolint:gosec // our own program
		strconv.FormatInt(s.lease.Milliseconds(), 10))
	cmd.Stderr, cmd.WaitDelay = stderr, jvmStop
	r := &redissonSession{cmd: cmd, lines: make(chan []byte), cancel: cancel, ended: make(chan struct{})}
	var output io.Reader
	output, toLines := io.Pipe()
	cmd.Stdout = toLines
	var err error
	if r.input, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("starting a JVM: %w", err)
	}
	go r.read(ctx, output)
	go func() {
		_ = cmd.Wait()      // how it ends says nothing: it may have been killed
		_ = toLines.Close() // it always returns nil
		close(r.ended)
	}()
	return r, nil
}

// read delivers lines until the process has ended.
func (r *redissonSession) read(ctx context.Context, output io.Reader) {
	defer close(r.lines)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		select {
		case r.lines <- append([]byte(nil), lines.Bytes()...):
		case <-ctx.Done(): // nobody asks any more
		}
	}
}

// answer waits for the next line.
func (r *redissonSession) answer(ctx context.Context, limit time.Duration, into any) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case line, more := <-r.lines:
		if !more {
			return errors.New("the JVM has ended")
		}
		if err := json.Unmarshal(line, into); err != nil {
			return fmt.Errorf("the JVM says %q: %w", line, err)
		}
		return nil
	case <-timeout.C:
		return fmt.Errorf("the JVM has not answered for %v", limit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// warmUp runs pairs until the JVM has compiled what they run through.
func (r *redissonSession) warmUp(ctx context.Context, s setup) error {
	for _, w := range []workload{{goroutines: 64}, {goroutines: 1}} {
		c := &cell{workload: w, prefix: "holdfast-bench:warm", window: s.jvmWarm, limit: jvmGrace}
		if f := r.runCell(ctx, c); f.Error != "" {
			return errors.New(f.Error)
		}
	}
	return nil
}

// cellRequest is a cell as RedissonBench.java reads it.
type cellRequest struct {
	Prefix     string        `json:"prefix"`
	Threads    int           `json:"threads"`
	Shared     bool          `json:"shared"`
	Window     time.Duration `json:"window_ns"`
	Limit      time.Duration `json:"limit_ns"`
	Kind       lockKind      `json:"kind"`
	Hold       time.Duration `json:"hold_ns"`
	WriteEvery int           `json:"write_every"`
	// Clients are as many as there are processes elsewhere: each has its own connections,
	// subscriptions and owners.
	Clients   int  `json:"clients"`
	Alternate bool `json:"alternate"`
}

func redissonRequest(c *cell) cellRequest {
	w := c.workload
	return cellRequest{
		Prefix: c.prefix, Threads: w.goroutines, Shared: w.shared, Window: c.window, Limit: c.limit,
		Kind: w.kind, Hold: w.hold, WriteEvery: w.writeEvery, Clients: max(1, w.processes), Alternate: w.alternate,
	}
}

// runCell has the JVM run the cell. Figures that do not come are a standstill, after
// which the runner starts another one.
func (r *redissonSession) runCell(ctx context.Context, c *cell) (f figures) {
	request, err := json.Marshal(redissonRequest(c))
	if err == nil {
		_, err = r.input.Write(append(request, '\n'))
	}
	if err == nil {
		err = r.answer(ctx, c.window+2*c.limit+jvmGrace, &f)
	}
	if err != nil {
		r.cancel() // so that close does not wait for it
		return figures{StoodStill: true, Stuck: c.workload.goroutines, Errors: 1, Error: err.Error()}
	}
	f.PerSecond = float64(f.Pairs) / c.window.Seconds()
	if c.workload.processes > 0 {
		f.Processes = c.workload.processes // clients, but they count as such
	}
	return f
}

// close ends the process, and kills it if it does not end.
func (r *redissonSession) close() error {
	_ = r.input.Close() // it ends with its input
	timeout := time.NewTimer(jvmStop)
	defer timeout.Stop()
	defer r.cancel()
	for {
		select {
		case <-r.ended:
			return nil
		case <-timeout.C:
			r.cancel() // kills it
		}
	}
}
