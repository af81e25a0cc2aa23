package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestNestedLies has the environment lie about a run around this one, beside a real holder: no command runs without the lock.
func TestNestedLies(t *testing.T) {
	t.Parallel()
	server, elsewhere := redistest.Start(t), redistest.Start(t)
	redisURL := "redis://" + server.Addr()
	dir := t.TempDir()
	holder := holdfast(t, redisURL, "run", "--fenced", "job", "--", "sh", "-c", pidTo(dir+"/pid")+"exec sleep 60")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Signal(syscall.SIGTERM)
		_ = holder.Wait()
	})
	eventually(t, "the lock is held", func() bool { return exists(dir + "/pid") })
	owner := strings.TrimSpace(server.Cli(t, "HKEYS", "job"))
	server.Cli(t, "HSET", "vandal", "somebody:1", "1") // nobody says who that is
	const nameless = "99f17b91-c6cc-889e-88f6-8265bee545cf:1"
	server.Cli(t, "HSET", "nameless", nameless, "1")
	server.Cli(t, "HSET", "empty", "", "1")
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	parent := strconv.Itoa(os.Getpid()) // it is the parent of the group's leader, and no run
	const (
		lock   = "HOLDFAST_LOCK="
		ownerV = "HOLDFAST_OWNER="
		runner = "HOLDFAST_RUNNER="
	)
	for what, c := range map[string]struct {
		environment []string
		name        string
		code        int
	}{
		"no runner":                {[]string{lock + "job", ownerV + owner}, "job", 64},
		"an empty runner":          {[]string{lock + "job", ownerV + owner, runner}, "job", 64},
		"a word":                   {[]string{lock + "job", ownerV + owner, runner + "x"}, "job", 64},
		"zero":                     {[]string{lock + "job", ownerV + owner, runner + "0"}, "job", 64},
		"a negative number":        {[]string{lock + "job", ownerV + owner, runner + "-" + parent}, "job", 64},
		"a huge number":            {[]string{lock + "job", ownerV + owner, runner + "99999999999999999999"}, "job", 64},
		"no owner":                 {[]string{lock + "job", runner + parent}, "job", 64},
		"no lock":                  {[]string{ownerV + owner, runner + parent}, "job", 75},
		"a token alone":            {[]string{"HOLDFAST_TOKEN=5"}, "job", 75},
		"a permit alone":           {[]string{"HOLDFAST_PERMIT=00112233445566778899aabbccddeeff"}, "job", 75},
		"a parent that is no run":  {[]string{lock + "job", ownerV + owner, runner + parent}, "job", 75},
		"the holder, no ancestor":  {[]string{lock + "job", ownerV + owner, runner + strconv.Itoa(holder.Process.Pid)}, "job", 75},
		"the first process":        {[]string{lock + "job", ownerV + owner, runner + "1"}, "job", 75},
		"a process that has ended": {[]string{lock + "job", ownerV + owner, runner + strconv.Itoa(gone.Process.Pid)}, "job", 75},
		"no such process":          {[]string{lock + "job", ownerV + owner, runner + "2147483647"}, "job", 75},
		"an owner without a name":  {[]string{lock + "vandal", ownerV + "somebody:1", runner + parent}, "vandal", 75},
		"another lock's":           {[]string{lock + "other", ownerV + owner, runner + parent}, "job", 75},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cmd := holdfast(t, redisURL, "run", "--try", c.name, "--", "echo", "not-run")
			cmd.Env = append(cmd.Env, c.environment...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			wantNotRun(t, cmd, c.code)
		})
	}
	inside := func(name, script string, args ...string) *exec.Cmd {
		args = append(append([]string{"run", "--pass-redis"}, args...), name, "--", "sh", "-c", script)
		cmd := holdfast(t, "redis://"+elsewhere.Addr(), args...)
		cmd.Env = append(cmd.Env, "PATH="+toolDir(t)+":"+os.Getenv("PATH"))
		return cmd
	}
	try := fmt.Sprintf("holdfast run --redis %s --try job -- echo not-run", redisURL)
	for what, cmd := range map[string]*exec.Cmd{
		"a run of the name in another Redis":                   inside("job", try),
		"a run of the name in another Redis, another's owner":  inside("job", ownerV+owner+" "+try),
		"a run of another name":                                inside("other", lock+"job "+ownerV+owner+" "+try),
		"the same, with a word of the name":                    inside("other", lock+"vandal "+ownerV+"somebody:1 "+strings.Replace(try, "job", "vandal", 1)+" # vandal"),
		"a run of the name in another Redis, nobody's owner":   inside("vandal", ownerV+"somebody:1 "+strings.Replace(try, "job", "vandal", 1)),
		"a run that has ended, seen from what it left":         inside("job", "exec 3>&1; (while kill -0 $HOLDFAST_RUNNER 2>/dev/null; do sleep 0.05; done; "+ownerV+owner+" "+try+" >&3 2>&1; echo code $? >&3) & exit 75"),
		"a run that is another one's, of a semaphore, no hold": inside("sem", lock+"job "+ownerV+owner+" "+try, "--kind", "permits", "--permits", "1"),
		"a script that looks like a run":                       shell(t, lock+"nameless "+ownerV+nameless+" "+runner+"$$ setsid "+strings.Replace(try, "job", "nameless", 1), "script", "run", "nameless"),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			wantNotRun(t, cmd, 75)
		})
	}
}

// shell returns a command of a shell that is the parent of a group's leader, as where it controls jobs, and has the words behind its script.
func shell(t *testing.T, script string, words ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", script + " & wait $!"}, words...)...)
	cmd.Env = append(os.Environ(), "PATH="+toolDir(t)+":"+os.Getenv("PATH"))
	return cmd
}

// wantNotRun checks that a run ends with a code, and that its command did not run.
func wantNotRun(t *testing.T, cmd *exec.Cmd, want int) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if got := code(t, err); got != want || strings.Contains(string(out), "not-run") || strings.Contains(string(out), "code 0") {
		t.Errorf("exit code %d, want %d: %s", got, want, out)
	}
}
