package redistest

import (
	"os"
	"os/exec"
	"runtime"
)

// A process is a child process and the goroutine that owns it.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and been waited for
}

// startProcess runs a program with more variables than we have, and appends what it prints to the file output.
func startProcess(output string, variables []string, path string, args ...string) (*process, error) {
	file, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stdout, cmd.Stderr = file, file
	return startCommand(cmd)
}

func startCommand(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error, 1)
	go p.own(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// own starts the process and waits for it on one and the same thread: the
// kernel sends the signal asked for by dieWithParent when the thread that
// started the child ends, so that thread must live as long as the child.
func (p *process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	// How it ended does not matter: most are killed.
	_ = p.cmd.Wait()
	close(p.done)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process at once, even if it is suspended, and waits for it.
func (p *process) kill() {
	// The only error is that the process has ended already.
	_ = p.cmd.Process.Kill()
	<-p.done
}
