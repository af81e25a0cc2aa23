//go:build unix

package redistest_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestChild(t *testing.T) {
	t.Parallel()
	ends := redistest.StartChild(t, exec.Command("sh", "-c", "exit 3"))
	<-ends.Done()
	if got := ends.ExitCode(); got != 3 {
		t.Errorf("it ended with %d, not 3", got)
	}
	ends.Kill() // nothing to do

	stopped := redistest.StartChild(t, exec.Command("sleep", "60"))
	if err := stopped.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := stopped.Signal(syscall.SIGTERM); err != nil { // it waits until it goes on
		t.Fatal(err)
	}
	if err := stopped.Cont(); err != nil {
		t.Fatal(err)
	}
	<-stopped.Done()
	if got := stopped.ExitCode(); got != -1 {
		t.Errorf("it ended with %d, not by the signal", got)
	}

	killed := redistest.StartChild(t, exec.Command("sleep", "60"))
	if err := killed.Stop(); err != nil {
		t.Fatal(err)
	}
	killed.Kill()
	<-killed.Done()
}
