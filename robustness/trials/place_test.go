//go:build unix

package trials

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/robustness/history"
)

// place is where a member runs, and what it reaches servers through.
type place struct {
	index   int
	proxies []*redistest.Proxy
	via     map[string]string // the proxy of each server

	mu     sync.Mutex // guards what follows
	orders orders
	child  *redistest.Child
	stdin  io.Closer
}

// heal ends all faults of the network.
func (p *place) heal() {
	for _, proxy := range p.proxies {
		proxy.Refuse(false)
		proxy.BlackHole(redistest.Both, false)
		proxy.Delay(redistest.Both, 0)
		proxy.Forget()
	}
}

// start starts a member in a place.
func (tr *trial) start(p *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := tr.orders(p)
	var text bytes.Buffer
	err := gob.NewEncoder(&text).Encode(o)
	if err == nil {
		err = os.WriteFile(tr.file(o.Process, "orders"), text.Bytes(), 0o600)
	}
	if err != nil {
		tr.at.Fatalf("%v", err)
	}
	self, err := os.Executable()
	if err != nil {
		tr.at.Fatalf("%v", err)
	}
	said, err := os.Create(tr.file(o.Process, "said"))
	if err != nil {
		tr.at.Fatalf("%v", err)
	}
	defer said.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), memberVariable+"="+tr.file(o.Process, "orders"))
	cmd.Stderr = said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tr.at.Fatalf("%v", err)
	}
	p.orders, p.stdin, p.child = o, stdin, redistest.StartChild(tr.at, cmd)
}

func (tr *trial) file(process int, what string) string {
	return filepath.Join(tr.dir, fmt.Sprintf("%d.%s", process, what))
}

// kill kills the member of a place, and notes until when it is trusted.
func (tr *trial) kill(p *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := history.Moment(monotonic() - tr.epoch)
	p.child.Kill()
	tr.crashed(p, at)
}

// crashed notes that the member of a place has died at a moment, or before.
func (tr *trial) crashed(p *place, at history.Moment) {
	if look, err := os.ReadFile(p.orders.Look); err == nil && len(look) == 8 {
		at = min(at, history.Moment(binary.LittleEndian.Uint64(look)))
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.crashes = append(tr.crashes, history.Op{
		ID: -int64(p.orders.Process), Process: p.orders.Process, Client: 1, Kind: history.Crash, Invoke: at, Return: at, Outcome: history.OK,
	})
}

// pause stops the member of a place for a while.
func (tr *trial) pause(p *place, lasts time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.child.Stop(); err != nil {
		tr.at.Errorf("process %d: %v", p.orders.Process, err)
	}
	time.Sleep(lasts)
	if err := p.child.Cont(); err != nil {
		tr.at.Errorf("process %d: %v", p.orders.Process, err)
	}
}

// finish has the member of a place end what it has begun, and exit.
func (tr *trial) finish(p *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.stdin.Close() // an error means that it has ended, which its code tells
	timer := time.NewTimer(restLimit + 20*time.Second)
	defer timer.Stop()
	select {
	case <-p.child.Done():
	case <-timer.C:
		if err := p.child.Signal(syscall.SIGQUIT); err != nil { // it says where its goroutines are
			tr.t.Error(err)
		}
		<-p.child.Done()
	}
	if code := p.child.ExitCode(); code != 0 {
		tr.t.Errorf("process %d ended with %d", p.orders.Process, code)
		tr.crashed(p, history.Moment(monotonic()-tr.epoch))
	}
}

// said fails the trial if a member has said that something failed.
func (tr *trial) said(process int) {
	text, err := os.ReadFile(tr.file(process, "said"))
	if err != nil {
		tr.t.Error(err)
	}
	if *traceFlag {
		fmt.Print(string(text))
	}
	for _, begin := range []string{"FAILED", "panic:", "fatal error:", "SIGQUIT:"} {
		if i := strings.Index(string(text), begin); i >= 0 {
			rest := string(text[i:])
			tr.t.Errorf("process %d: %s", process, rest[:min(len(rest), 20_000)])
			return
		}
	}
}
