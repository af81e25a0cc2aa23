//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestPasswordFromAPipe has passwords come from what can be read only once: for all connections of a command, for a run inside it, and for
// the processes of the demo.
func TestPasswordFromAPipe(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3tW0rd"
	server := redistest.Start(t)
	server.Cli(t, "ACL", "SETUSER", "ann", "on", ">"+secret, "~*", "&*", "+@all")
	shell := func(script string) *exec.Cmd {
		cmd := holdfast(t, "redis://ann@"+server.Addr())
		cmd.Args = []string{"bash", "-c", script}
		cmd.Path = "/bin/bash"
		cmd.Env = append(cmd.Env, "PATH="+toolDir(t)+":"+os.Getenv("PATH"))
		return cmd
	}
	for _, script := range []string{
		"holdfast ls --password-file <(echo " + secret + ")",
		"echo " + secret + " | holdfast run --password-file /dev/stdin job -- echo ran",
		"holdfast run --pass-redis --password-file <(echo " + secret + ") job -- holdfast run job -- echo ran",
		"holdfast run --pass-redis --password-file <(echo " + secret + ") other -- holdfast run third -- echo ran",
		"holdfast bench --duration 100ms --password-file <(echo " + secret + ")",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			out, err := shell(script).CombinedOutput()
			if got := code(t, err); got != 0 || strings.Contains(script, "ran") && !strings.Contains(string(out), "ran") || strings.Contains(string(out), secret) {
				t.Errorf("exit code %d: %s", got, out)
			}
		})
	}
}

// TestPipeNobodyWritesTo: a command that waits for what a file has obeys signals, at its start and while it works.
func TestPipeNobodyWritesTo(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"ls", "--password-file"},
		{"run", "job", "--password-file"},
		{"dashboard", "--token-file"},
		{"doctor", "--redis", "rediss://127.0.0.1:1", "--tls-ca"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			fifo := makePipe(t, t.TempDir()+"/fifo")
			args = append(args, fifo)
			if args[0] == "run" {
				args = append(args, "--", "true")
			}
			cmd := holdfast(t, "redis://127.0.0.1:1", args...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitReader(t, fifo)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
				t.Errorf("%v", err)
			}
		})
	}
	for _, args := range [][]string{{"wait", "job"}, {"run", "job", "--", "echo", "not-run"}} {
		t.Run("replaced/"+args[0], func(t *testing.T) {
			t.Parallel()
			server, file := redistest.Start(t), t.TempDir()+"/password"
			server.Cli(t, "ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all")
			server.Cli(t, "HSET", "job", javaOwner, "1")
			write(t, file, "pw")
			cmd := holdfast(t, "redis://ann@"+server.Addr(), append(args[:1:1], append([]string{"--password-file", file}, args[1:]...)...)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it waits", func() bool { return strings.Contains(server.Cli(t, "CLIENT", "LIST"), "user=ann") })
			must(os.Remove(file))
			makePipe(t, file)
			server.Cli(t, "CLIENT", "KILL", "USER", "ann")
			awaitReader(t, file)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if got := code(t, cmd.Wait()); got != 143 {
				t.Errorf("exit code %d", got)
			}
		})
	}
}

// makePipe makes a FIFO.
func makePipe(t *testing.T, name string) string {
	t.Helper()
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// awaitReader opens a FIFO for writing, which works once it is being read, and writes nothing until the test ends.
func awaitReader(t *testing.T, fifo string) {
	t.Helper()
	eventually(t, "the pipe is read", func() bool {
		fd, err := syscall.Open(fifo, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err == nil {
			t.Cleanup(func() { _ = syscall.Close(fd) })
		}
		return err == nil
	})
}
