// Package watch shows locks on a terminal, as they are, until the reader has had enough.
//
// It goes through Redis again and again, and never twice at once: between two scans it pauses for the interval,
// or for as long as the scan took if that is longer. While one lock's details are shown, only that one is read.
//
// The model is changed by Update alone. What asks Redis runs as a command of Bubble Tea, in a goroutine of its
// own, sees only what it was given, and answers by a message. [Run] ends their context when the program ends.
package watch

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/force"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

// mostKept is how many locks are kept to be shown.
const mostKept = 10_000

// ErrInterrupted says that the reader has pressed Ctrl-C.
var ErrInterrupted = tea.ErrInterrupted

// Config says what to show.
type Config struct {
	Redis redis.UniversalClient
	// Server describes it to the reader.
	Server string
	// Options say which locks to show.
	Options survey.Options
	// Interval is the pause between two looks.
	Interval time.Duration
	// Order is how they are sorted at first.
	Order present.Order
	// Explain says what an error is about.
	Explain func(error) string
}

// Run shows locks on a terminal until the reader quits, which is no error, or ctx ends. If the first look fails, it
// returns that error; later ones are shown.
func Run(ctx context.Context, in io.Reader, out io.Writer, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, cfg)
	program := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	stop := context.AfterFunc(ctx, program.Quit)
	defer stop()
	_, err := program.Run()
	if errors.Is(err, tea.ErrInterrupted) {
		return ErrInterrupted
	}
	return cmp.Or(m.fatal, err, ctx.Err())
}

// What the commands answer.
type (
	// scanned is a look at all locks.
	scanned struct {
		locks   []survey.Lock
		more    int // how many were left out
		tooLong int // names
		took    time.Duration
		err     error
	}
	// read is a look at one, for its details or to take it away.
	read struct {
		name    string
		lock    survey.Lock
		err     error
		toForce bool
	}
	// forced is what came of taking one away.
	forced struct {
		name string
		done bool
		err  error
	}
	// due says that it is time for another look, if no other has been asked for since.
	due struct{ round int }
)

// asker makes the commands that ask Redis.
type asker struct {
	Config

	ctx context.Context
}

func (a asker) scan() tea.Msg {
	began := time.Now()
	var answer scanned
	answer.tooLong, answer.err = survey.Scan(a.ctx, a.Redis, a.Options, func(l survey.Lock) error {
		if len(answer.locks) == mostKept {
			answer.more++
			return nil
		}
		answer.locks = append(answer.locks, l)
		return nil
	})
	answer.took = time.Since(began)
	return answer
}

func (a asker) read(name string, toForce bool) tea.Cmd {
	return func() tea.Msg {
		lock, err := survey.Read(a.ctx, a.Redis, name)
		return read{name, lock, err, toForce}
	}
}

func (a asker) force(before survey.Lock) tea.Cmd {
	return func() tea.Msg {
		done, err := force.Unlock(a.ctx, a.Redis, before)
		return forced{before.Name, done, err}
	}
}
