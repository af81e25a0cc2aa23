package redistest_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

const childVariable = "REDISTEST_CHILD"

// A test binary that is killed cannot run its cleanups.
func TestServerDiesWithTestBinary(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		// This is the binary that gets killed. It waits for that.
		s := redistest.Start(t)
		_, _ = os.Stdout.WriteString("\nserver at " + s.Addr() + "\n")
		select {}
	}
	t.Parallel()
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	child.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+t.TempDir())
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	addr := ""
	for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
		_, addr, _ = strings.Cut(lines.Text(), "server at ")
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // it was killed
	if addr == "" {
		t.Fatal("the child started no server")
	}
	waitFor(t, "the server has gone", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}
