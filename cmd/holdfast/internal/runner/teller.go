//go:build unix

package runner

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
)

// sayLimit is for how long the end of a run waits until everything has been said.
const sayLimit = time.Second

// teller says things to people, and to programs, in a goroutine of its own, in order: a terminal
// that Ctrl-S has stopped, or a pipe that nobody reads, must not keep us from stopping the
// command in time. What finds the queue full is dropped.
type teller struct {
	queue chan func()
	stop  func()
	done  chan struct{} // closed when all has been said after stop
}

func newTeller() *teller {
	stopped := make(chan struct{})
	t := &teller{make(chan func(), 64), sync.OnceFunc(func() { close(stopped) }), make(chan struct{})}
	go t.work(stopped)
	return t
}

func (t *teller) work(stopped <-chan struct{}) {
	defer close(t.done)
	for {
		select {
		case say := <-t.queue:
			say()
		case <-stopped:
			for len(t.queue) > 0 {
				(<-t.queue)()
			}
			return
		}
	}
}

func (t *teller) tell(say func()) {
	select {
	case t.queue <- say:
	default:
	}
}

// close returns when all has been said, or nobody has listened for [sayLimit]: then the
// goroutine ends with the program.
func (t *teller) close() {
	t.stop()
	select {
	case <-t.done:
	case <-time.After(sayLimit):
	}
}

// event is one line of the status, for programs.
type event struct {
	Time     time.Time `json:"time"`
	Event    string    `json:"event"` // waiting, acquired, nested, started, refused, lost, exited, done
	Name     string    `json:"name"`
	Kind     Kind      `json:"kind"`
	Holders  []holder  `json:"holders,omitempty"`   // of waiting, if Redis has said
	WaitedMS *int64    `json:"waited_ms,omitempty"` // of waiting and acquired
	Owner    string    `json:"owner,omitempty"`     // of acquired and nested
	Permit   string    `json:"permit,omitempty"`    // in its place, of a semaphore
	Token    int64     `json:"token,omitempty"`     // of acquired, if fenced
	PID      int       `json:"pid,omitempty"`       // of started
	Signal   int       `json:"signal,omitempty"`    // of refused
	Reason   string    `json:"reason,omitempty"`    // of refused and lost
	ExitCode *int      `json:"exit_code,omitempty"` // of exited the command's, of done ours
	Error    string    `json:"error,omitempty"`     // of done, if there is something to say
}

// holder is who holds the lock.
type holder struct {
	Owner  string `json:"owner,omitempty"`
	Permit string `json:"permit,omitempty"`  // in place of the owner, of a semaphore
	Who    string `json:"who,omitempty"`     // program, host and process, if they are known
	HeldMS int64  `json:"held_ms,omitempty"` // if that is known
	Mode   string `json:"mode,omitempty"`
	TTLMS  int64  `json:"ttl_ms"` // -1 without an end
}

// noticef says what is worth knowing, unless nothing but errors is to be said.
func (r *run) noticef(format string, args ...any) {
	if !r.Quiet {
		r.Log(format, args...)
	}
}

// detailf says what only those want to know who ask.
func (r *run) detailf(format string, args ...any) {
	if r.Verbose {
		r.Log(format, args...)
	}
}

// happened tells programs, until that fails.
func (r *run) happened(e event) {
	if r.Status == nil {
		return
	}
	e.Time, e.Name, e.Kind = time.Now(), r.Conceal(r.Name), r.Kind
	e.Reason, e.Error = r.Conceal(e.Reason), r.Conceal(e.Error)
	r.teller.tell(func() {
		if r.mute {
			return
		}
		if err := present.JSON(r.Status, e); err != nil {
			r.mute = true
			r.say("the status cannot be written, so there is no more of it: %v", err)
		}
	})
}

func milliseconds(d time.Duration) *int64 {
	ms := d.Milliseconds()
	return &ms
}
