package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
	Version   string
	Mode      string // single, cluster or sentinel
	Addresses []string
	Master    string        // with sentinel
	Watchdog  time.Duration // lockWatchdogTimeout; 0: 30 s
	FairWait  time.Duration // fairLockWaitTimeout; 0: 5 min
}

// built is the Java program for each version of Redisson.
var built sync.Map // version -> func() (string, error)

// build compiles the Java program for a version of Redisson, once, and returns
// where it is.
func build(ctx context.Context, version string) (string, error) {
	once, _ := built.LoadOrStore(version, sync.OnceValues(func() (string, error) { return compile(ctx, version) }))
	return once.(func() (string, error))() //nolint:forcetypeassert // nothing else is stored
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

// Peer is a JVM with one Redisson client. Its goroutine reads the answers until
// the JVM has ended.
type Peer struct {
	// ID is the client's UUID, as it stands in front of its threads' numbers.
	ID string

	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan struct{}

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
}

var errEnded = errors.New("the JVM has ended")

type answer struct {
	value string
	err   error
}

// Start starts a JVM and returns when its client is connected.
func Start(ctx context.Context, c Config) (*Peer, error) {
	target, err := build(ctx, c.Version)
	if err != nil {
		return nil, err
	}
	if c.Watchdog == 0 {
		c.Watchdog = 30 * time.Second
	}
	if c.FairWait == 0 {
		c.FairWait = 5 * time.Minute
	}
	addresses := make([]string, len(c.Addresses))
	for i, a := range c.Addresses {
		addresses[i] = "redis://" + a
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", //nolint:gosec // the tests say what
		filepath.Join(target, "classes")+string(os.PathListSeparator)+filepath.Join(target, "lib", "*"),
		"holdfast.interop.Peer", c.Mode, strconv.FormatInt(c.Watchdog.Milliseconds(), 10),
		strconv.FormatInt(c.FairWait.Milliseconds(), 10), strings.Join(addresses, ","), c.Master)
	cmd.Stderr = os.Stderr
	p := &Peer{cmd: cmd, ended: make(chan struct{}), waiting: map[int]chan answer{0: make(chan answer, 1)}}
	hello := p.waiting[0]
	if p.input, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
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
		return nil, fmt.Errorf("the JVM does not say hello: %w", context.Cause(ctx))
	}
}

// read hands the answers out, until the JVM has ended.
func (p *Peer) read(output io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		number, rest, _ := strings.Cut(lines.Text(), " ")
		verdict, value, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(number)
		a := answer{value: value}
		if err != nil || verdict != "ok" {
			a.err = fmt.Errorf("redisson: %s", lines.Text())
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

// Ask has a thread do something and returns where the answer will be.
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

// Kill ends the JVM at once, as a crash would, and waits for it.
func (p *Peer) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}
