package workloads

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/crews"
	"github.com/holdfast-go/holdfast/bench/places"
)

// memberEnv is set in the environment of a process that is part of a crew.
const memberEnv = "HOLDFAST_BENCH_MEMBER"

// memberRequest is what a process of a crew is to do: the first line of its standard
// input. The second one has it begin. It says when it is ready, and then its outcome.
type memberRequest struct {
	Order

	Contender string           `json:"contender"` // its full name
	Setup     contenders.Setup `json:"setup"`
	Room      string           `json:"room"`    // its file
	Process   int              `json:"process"` // its number
}

// goroutines are those of this process.
func (q memberRequest) goroutines() int { return q.share(q.Process) }

// Member is the program of a process of a crew, and reports whether this is one. However it goes, it ends when its
// input does, and so when the process that has started it is no more.
func Member() bool {
	if os.Getenv(memberEnv) == "" {
		return false
	}
	if err := runMember(os.Stdin, os.Stdout, os.Exit); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	return true
}

// runMember reads a request, says when it is ready, begins when it is told to, and says
// what it has measured. It calls exit at the end of its input, or when its time is up.
func runMember(input io.Reader, output io.Writer, exit func(int)) error {
	lines, answers := bufio.NewReader(input), json.NewEncoder(output)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var q memberRequest
	if err := json.Unmarshal(line, &q); err != nil {
		return err
	}
	timeIsUp := time.AfterFunc(q.crewLimit(), func() { exit(1) })
	defer timeIsUp.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begin := make(chan struct{})
	go func() { // it ends the process, or with it
		if _, err := lines.ReadBytes('\n'); err == nil {
			close(begin)
			_, _ = lines.ReadBytes('\n') // nothing more is said, so this is the end
		}
		exit(0)
	}()
	w, err := openMember(ctx, q)
	if err != nil {
		return errors.Join(answers.Encode(crews.Ready{Error: err.Error()}), w.close())
	}
	if err := answers.Encode(crews.Ready{}); err != nil {
		return errors.Join(err, w.close())
	}
	<-begin
	return errors.Join(answers.Encode(w.run(ctx)), w.close())
}

// member is what a process of a crew works with.
type member struct {
	memberRequest

	contender contenders.Contender
	sessions  []*contenders.Session
	pings     *pings
	room      *places.Room // mapped until the process ends: one who does not come back may be inside
}

// openMember connects all clients, and warms them up. It has to be closed, also after an
// error.
func openMember(ctx context.Context, q memberRequest) (w *member, err error) {
	w = &member{memberRequest: q}
	if w.contender, err = contenders.Named(q.Contender); err != nil {
		return w, err
	}
	if w.room, _, err = places.OpenRoom(q.Room); err != nil {
		return w, err
	}
	n := 1
	if q.Clients {
		n = q.goroutines()
	}
	w.sessions = make([]*contenders.Session, n)
	if err := ForEach(ctx, 0, n, func(i int) error { return w.open(ctx, i) }); err != nil {
		return w, err
	}
	if q.Alternate {
		w.pings, err = openPings(ctx, w.contender.Client, q.Setup)
	}
	return w, err
}

// open opens a session, and has it do a pair with a lock that nobody else wants.
func (w *member) open(ctx context.Context, i int) error {
	s, err := w.contender.Open(ctx, w.Setup)
	if err != nil {
		return err
	}
	w.sessions[i] = s
	each, write := w.pairs(s, fmt.Sprintf("%s:warm:%d:%d", w.Prefix, w.Process, i))
	ctx, cancel := context.WithTimeout(ctx, crewStart)
	defer cancel()
	if write != nil {
		if err := write(ctx, func() {}); err != nil {
			return err
		}
	}
	return each(ctx, func() {})
}

// run is the work itself.
func (w *member) run(ctx context.Context) outcome {
	g := &gang{
		Order: w.Order, goroutines: w.goroutines(), process: w.Process,
		locks:   func(i int) *contenders.Session { return w.sessions[i%len(w.sessions)] },
		room:    func(int) *places.Room { return w.room },
		abandon: true,
	}
	stop := w.pings.start(ctx, w.Ramp)
	o := g.run(ctx)
	pings, err := stop()
	o.RoundTrips = pings
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

// Close closes all sessions. What does not end is left to the end of the process.
func (w *member) close() error {
	return errors.Join(w.pings.close(), ForEach(context.Background(), 0, len(w.sessions), func(i int) error {
		if s := w.sessions[i]; s != nil {
			return w.contender.CloseWithin(w.Limit, s)
		}
		return nil
	}))
}
