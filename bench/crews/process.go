package crews

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// A Process is a program that is told what to do, and answers: JSON, an object a line, on its standard input and
// output. It ends with its input. One goroutine reads what it says, and one waits for its end; both end with it.
type Process struct {
	input   io.WriteCloser
	answers chan []byte   // closed at the end of its output
	ended   chan struct{} // closed when it has
	kill    context.CancelFunc
	process *os.Process
	grace   time.Duration
}

// Start starts a program, with more in its environment. It is killed at the end of the context, and if it has not
// ended so long after its input has.
func Start(ctx context.Context, grace time.Duration, stderr io.Writer, env []string, name string, args ...string) (*Process, error) {
	ctx, kill := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // a program of ours
	cmd.Env, cmd.Stderr, cmd.WaitDelay = append(os.Environ(), env...), stderr, grace
	output, toAnswers := io.Pipe()
	cmd.Stdout = toAnswers
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		kill()
		return nil, fmt.Errorf("starting a process: %w", err)
	}
	p := &Process{input: input, answers: make(chan []byte, 2), ended: make(chan struct{}), kill: kill, process: cmd.Process, grace: grace}
	go p.read(ctx, output)
	go func() {
		_ = cmd.Wait()        // how it ends says nothing that it has not said: it may have been killed
		_ = toAnswers.Close() // it always returns nil
		close(p.ended)
	}()
	return p, nil
}

// read delivers lines until the process has ended.
func (p *Process) read(ctx context.Context, output io.Reader) {
	defer close(p.answers)
	for lines := bufio.NewReader(output); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		select {
		case p.answers <- line:
		case <-ctx.Done(): // nobody asks any more
		}
	}
}

// Say tells it something.
func (p *Process) Say(something any) error { return json.NewEncoder(p.input).Encode(something) }

// Answer waits for the next line.
func (p *Process) Answer(ctx context.Context, into any) error {
	select {
	case line, more := <-p.answers:
		if !more {
			return errors.New("the process has ended")
		}
		if err := json.Unmarshal(line, into); err != nil {
			return fmt.Errorf("the process says %q: %w", line, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the process has not answered: %w", context.Cause(ctx))
	}
}

// Ready waits until it says that it is.
func (p *Process) Ready(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var r Ready
	if err := p.Answer(ctx, &r); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// Kill kills the process, and waits for its end.
func (p *Process) Kill() {
	p.kill()
	<-p.ended
}

// Signal sends it a signal.
func (p *Process) Signal(s os.Signal) error { return p.process.Signal(s) }

// Ready is what a process says first.
type Ready struct {
	Error string `json:"error"` // why it is not
}

// Close ends the process, and waits for it.
func (p *Process) Close() error {
	err := p.input.Close()
	patience := time.NewTimer(p.grace)
	defer patience.Stop()
	defer p.kill()
	for {
		select {
		case <-p.ended:
			if errors.Is(err, os.ErrClosed) { // it has ended before
				err = nil
			}
			return err
		case <-patience.C:
			p.kill()
		}
	}
}
