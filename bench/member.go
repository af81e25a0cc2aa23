package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// memberEnv is set in the environment of a process that is part of a crew.
const memberEnv = "HOLDFAST_BENCH_MEMBER"

// A member is a process of a crew, seen from the one that has started it. One goroutine
// reads what it says, and one waits for its end; both end with it.
type member struct {
	number     int
	goroutines int
	input      io.WriteCloser
	answers    chan json.RawMessage // closed at the end of its output
	ended      chan struct{}        // closed when it has ended
	kill       context.CancelFunc
}

// startMember starts this program once more. It is killed at the end of the context.
func startMember(ctx context.Context, q memberRequest, stderr io.Writer) (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	request, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	ctx, kill := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, self) //nolint:gosec // it starts itself
	cmd.Env = append(os.Environ(), memberEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr, cmd.WaitDelay = stderr, time.Second
	m := &member{
		number: q.Process, goroutines: q.Goroutines, answers: make(chan json.RawMessage, 2), ended: make(chan struct{}), kill: kill,
	}
	output, toAnswers := io.Pipe()
	cmd.Stdout = toAnswers
	if m.input, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		kill()
		return nil, fmt.Errorf("starting a process: %w", err)
	}
	go m.read(output)
	go func() {
		_ = cmd.Wait()        // how it ends says nothing that it has not said: it may have been killed
		_ = toAnswers.Close() // it always returns nil
		close(m.ended)
	}()
	if err := m.say(request); err != nil {
		return nil, errors.Join(err, m.dismiss())
	}
	return m, nil
}

// read delivers answers until the process has ended.
func (m *member) read(output io.Reader) {
	defer close(m.answers)
	for decoder := json.NewDecoder(output); ; {
		var answer json.RawMessage
		if decoder.Decode(&answer) != nil { // the end, or nonsense, after which nothing can be understood
			_, _ = io.Copy(io.Discard, output) // nothing else reads it
			return
		}
		m.answers <- answer // there are no more than two, so it does not block
	}
}

func (m *member) say(line []byte) error {
	_, err := m.input.Write(append(line, '\n'))
	return err
}

// answer waits for the next line.
func (m *member) answer(ctx context.Context, into any) error {
	select {
	case line, more := <-m.answers:
		if !more {
			return errors.New("it has ended")
		}
		return json.Unmarshal(line, into)
	case <-ctx.Done():
		return fmt.Errorf("it has not answered: %w", context.Cause(ctx))
	}
}

// awaitReady waits until it has connected all clients.
func (m *member) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, crewStart)
	defer cancel()
	var ready memberReady
	if err := m.answer(ctx, &ready); err != nil {
		return err
	}
	if ready.Error != "" {
		return errors.New(ready.Error)
	}
	return nil
}

// begin has it start.
func (m *member) begin() error { return m.say([]byte("begin")) }

// outcome is what it has measured; if it does not say, that is a standstill.
func (m *member) outcome(ctx context.Context) (o outcome) {
	if err := m.answer(ctx, &o); err != nil {
		return outcome{Still: true, Stuck: m.goroutines, Error: err.Error()}
	}
	return o
}

// dismiss ends the process, and waits for it. It ends with its input.
func (m *member) dismiss() error {
	err := m.input.Close()
	patience := time.NewTimer(crewGrace)
	defer patience.Stop()
	defer m.kill()
	for {
		select {
		case <-m.ended:
			if errors.Is(err, os.ErrClosed) { // it has ended before
				err = nil
			}
			return err
		case <-patience.C:
			m.kill()
		}
	}
}
