package interop

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Versions of Redisson that are on the other side: the newest of its current major
// line, and the last of the one before.
var Versions = []string{"4.7.0", "3.52.0"}

// Config is how a [Peer] is set up.
type Config struct {
	Version   string        // of Redisson; a Go peer has none
	Mode      Mode          // what the servers are
	Addresses []string      // host:port, each
	Master    string        // with Sentinel
	Watchdog  time.Duration // the watchdog's lease; 0: 30 s
	FairWait  time.Duration // Redisson's fairLockWaitTimeout; 0: 5 min
	Channels  int           // to how many Redisson listens at most, in Single, a multiple of 5; 0: 250
	Rueidis   bool          // the Go peer's client; else go-redis
}

// Mode is what a client is told of the servers.
type Mode string

// The modes.
const (
	Single      Mode = "single"
	Cluster     Mode = "cluster"
	Classic     Mode = "classic" // a cluster, without sharded pub/sub
	Sentinel    Mode = "sentinel"
	Independent Mode = "independent" // several servers, for a RedLock
)

// settings writes a config as both programs read it.
func (c *Config) settings(scheme string) []string {
	addresses := make([]string, len(c.Addresses))
	for i, a := range c.Addresses {
		addresses[i] = scheme + a
	}
	return []string{
		"mode=" + string(c.Mode),
		"addresses=" + strings.Join(addresses, ","),
		"master=" + c.Master,
		"watchdog=" + strconv.FormatInt(cmp.Or(c.Watchdog, 30*time.Second).Milliseconds(), 10),
		"channels=" + strconv.Itoa(cmp.Or(c.Channels, 250)),
		"fairwait=" + strconv.FormatInt(cmp.Or(c.FairWait, 5*time.Minute).Milliseconds(), 10),
		"rueidis=" + strconv.FormatBool(c.Rueidis),
	}
}

// perVersion makes a file or a directory for each version of Redisson, once.
type perVersion struct{ made sync.Map } // version -> func() (string, error)

// path returns where it is, and makes it if need be.
func (p *perVersion) path(version string, made func() (string, error)) (string, error) {
	once, _ := p.made.LoadOrStore(version, sync.OnceValues(made))
	return once.(func() (string, error))() //nolint:forcetypeassert // nothing else is stored
}

// built has the Java program, and archived the archive of classes that its JVMs share: with it they start in half of
// the time.
var built, archived perVersion

// build compiles the Java program for a version of Redisson, once, and returns
// where it is.
func build(ctx context.Context, version string) (string, error) {
	return built.path(version, func() (string, error) { return compile(ctx, version) })
}

func compile(ctx context.Context, version string) (string, error) {
	if _, err := exec.LookPath("mvn"); err != nil {
		return "", fmt.Errorf("interop needs a JDK (17 or newer) and Maven: install openjdk-17-jdk-headless and maven: %w", err)
	}
	target, err := filepath.Abs(filepath.Join("java", "target", version))
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", "java/pom.xml", //nolint:gosec // the version is one of ours
		"-Dredisson.version="+version, "-Dtarget="+target, "package")
	if text, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn: %w: %s", err, text)
	}
	return target, nil
}

// Peer is a process with one client, Java's or ours, that obeys commands. Its
// goroutine reads the answers until the process has ended.
type Peer struct {
	// ID is the client's UUID, as it stands in front of its threads' numbers.
	ID string
	// Java reports whether it is Redisson.
	Java bool

	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan struct{}

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
}

var errEnded = errors.New("the process has ended")

type answer struct {
	value string
	err   error
}

// starting bounds how many JVMs start at one time. Each takes more than a core for a
// second or two, and those that are there already shall have some.
var starting = make(chan struct{}, max(1, runtime.NumCPU()/2))

// StartJava starts a JVM and returns when its client is connected.
func StartJava(ctx context.Context, c Config) (*Peer, error) {
	target, err := build(ctx, c.Version)
	if err != nil {
		return nil, err
	}
	select {
	case starting <- struct{}{}:
		defer func() { <-starting }()
	case <-ctx.Done():
		return nil, fmt.Errorf("other JVMs are still starting: %w", context.Cause(ctx))
	}
	archive, err := archived.path(c.Version, func() (string, error) { return c.archive(ctx, target) })
	if err != nil {
		return nil, err
	}
	return start(ctx, true, c.java(context.WithoutCancel(ctx), target, "-XX:SharedArchiveFile="+archive))
}

// archive makes the archive of classes: of those that a JVM loads which has no commands, and so ends at once.
func (c *Config) archive(ctx context.Context, target string) (string, error) {
	path := filepath.Join(target, "classes.jsa")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute) // it serves others, too
	defer cancel()
	if text, err := c.java(ctx, target, "-XX:ArchiveClassesAtExit="+path).CombinedOutput(); err != nil {
		return "", fmt.Errorf("the first JVM: %w: %s", err, text)
	}
	return path, nil
}

// java is the command for a JVM. It does not log: that would stand between its answers. An archive has no classes from a
// directory, so ours come in a jar.
func (c *Config) java(ctx context.Context, target, option string) *exec.Cmd {
	arguments := append([]string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable", option, "-cp",
		filepath.Join(target, "interop-1.jar") + string(os.PathListSeparator) + filepath.Join(target, "lib", "*"),
		"holdfast.interop.Peer",
	}, c.settings("redis://")...)
	return exec.CommandContext(ctx, "java", arguments...) //nolint:gosec // the tests say what
}

// GoVariable is what the environment of a Go peer has: its process is this
// program once more, whose main function calls what obeys.
const GoVariable = "HOLDFAST_INTEROP_PEER"

// StartGo starts this program once more, as a Go peer.
func StartGo(ctx context.Context, c Config) (*Peer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, c.settings("")...) //nolint:gosec // it is this program
	cmd.Env = append(os.Environ(), GoVariable+"=1")
	return start(ctx, false, cmd)
}

func start(ctx context.Context, java bool, cmd *exec.Cmd) (*Peer, error) {
	cmd.Stderr = os.Stderr
	hello := make(chan answer, 1)
	p := &Peer{Java: java, cmd: cmd, ended: make(chan struct{}), waiting: map[int]chan answer{0: hello}}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.input, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(output)
	select {
	case a := <-hello:
		p.ID = a.value
		return p, a.err
	case <-ctx.Done():
		p.Kill()
		return nil, fmt.Errorf("the process does not say hello: %w", context.Cause(ctx))
	}
}

// read hands the answers out, until the process has ended.
func (p *Peer) read(output io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		number, rest, _ := strings.Cut(lines.Text(), " ")
		verdict, value, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(number)
		a := answer{value: value}
		if err != nil || verdict != "ok" {
			a.err = fmt.Errorf("%s: %s", p, lines.Text())
		}
		p.mu.Lock()
		waiting := p.waiting[n]
		delete(p.waiting, n)
		p.mu.Unlock()
		if waiting != nil {
			waiting <- a
		}
	}
	ended := errEnded
	if err := p.cmd.Wait(); err != nil {
		ended = fmt.Errorf("%w: %w", errEnded, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, waiting := range p.waiting {
		waiting <- answer{err: ended}
	}
	p.waiting = nil
}

// Ask has a thread do something, and returns what waits for the answer. Whoever
// does not call it does not wait.
func (p *Peer) Ask(thread, verb, kind, name string, numbers ...any) func() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		return func() (string, error) { return "", errEnded }
	}
	p.last++
	waiting := make(chan answer, 1)
	p.waiting[p.last] = waiting
	words := []any{p.last, thread, verb, kind, name}
	if _, err := fmt.Fprintln(p.input, append(words, numbers...)...); err != nil {
		waiting <- answer{err: err}
	}
	return func() (string, error) {
		a := <-waiting
		return a.value, a.err
	}
}

// String says which language it speaks.
func (p *Peer) String() string {
	if p.Java {
		return "java"
	}
	return "go"
}

// Kill ends the process at once, as a crash would, and waits for it.
func (p *Peer) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}
