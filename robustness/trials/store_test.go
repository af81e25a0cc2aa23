//go:build unix

package trials

import (
	"errors"
	"net"
	"net/rpc"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/robustness/history"
	"github.com/holdfast-go/holdfast/robustness/program"
)

// store compares tokens, and keeps detached holds for anybody to adopt. Members call it by a socket; Redis is not asked.
type store struct {
	blind bool // it accepts every token

	mu       sync.Mutex
	tokens   map[string]int64
	detached map[string][]Left
}

// Left is a detached hold.
type Left struct {
	Lock    string
	Shared  bool
	Owner   string
	Process int
	Hold    int64
}

// Written is a write.
type Written struct {
	Lock  string
	Token int64
}

// Taken is a detached hold, or none.
type Taken struct {
	OK   bool
	Left Left
}

// Write accepts a token unless there was a greater one.
func (s *store) Write(w Written, accepted *bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *accepted = s.blind || w.Token >= s.tokens[w.Lock]; *accepted {
		s.tokens[w.Lock] = w.Token
	}
	return nil
}

// Leave keeps a detached hold.
func (s *store) Leave(l Left, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached[l.Lock] = append(s.detached[l.Lock], l)
	return nil
}

// Take gives the one away that was left last.
func (s *store) Take(lock string, t *Taken) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.detached[lock]; len(all) > 0 {
		*t = Taken{OK: true, Left: all[len(all)-1]}
		s.detached[lock] = all[:len(all)-1]
	}
	return nil
}

// serve serves the store at a socket until the end of the test, and waits for the connections: members have ended by then.
func (s *store) serve(t *testing.T, path string) {
	t.Helper()
	s.tokens, s.detached = map[string]int64{}, map[string][]Left{}
	server := rpc.NewServer()
	if err := server.RegisterName("Store", s); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				t.Errorf("the store: %v", err)
				return
			}
			running.Go(func() { server.ServeConn(conn) })
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		running.Wait()
	})
}

// stub is the store in a member.
type stub struct{ *rpc.Client }

func (s stub) write(lock string, token int64) history.Outcome {
	var accepted bool
	switch err := s.Call("Store.Write", Written{lock, token}, &accepted); {
	case err != nil:
		return history.Unknown
	case accepted:
		return history.OK
	}
	return history.Refused
}

func (s stub) leave(d program.Detached) error {
	return s.Call("Store.Leave", Left{d.Lock, d.Shared, d.Owner.String(), d.Process, d.Hold}, &struct{}{})
}

func (s stub) take(lock string) (d program.Detached, ok bool, err error) {
	var t Taken
	if err := s.Call("Store.Take", lock, &t); err != nil || !t.OK {
		return d, false, err
	}
	owner, err := holdfast.ParseOwner(t.Left.Owner)
	return program.Detached{Lock: t.Left.Lock, Shared: t.Left.Shared, Owner: owner, Process: t.Left.Process, Hold: t.Left.Hold}, err == nil, err
}
