package contenders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/crews"
)

const (
	jvmStart = time.Minute      // for it to compile the program and connect
	jvmStop  = 5 * time.Second  // after the end of its input, before it is killed
	jvmGrace = 10 * time.Second // for an answer, beyond what the cell may take
)

// RedissonInJVM is Redisson itself.
func RedissonInJVM(p JVMProgram, progress io.Writer) Contender {
	return Contender{
		Name: "Redisson", Client: InJVM, Kinds: true,
		Notes: "lock and unlock of the real one, " + p.Redisson + " on " + p.Java + ", in a process of its own with the JVM's and " +
			"Redisson's default settings; a thread and an RLock for each goroutine, and in place of several processes as many clients in " +
			"that one. It is warmed up before the first round. " +
			"Its watchdog renews its locks.",
		Open: func(ctx context.Context, s Setup) (*Session, error) { return startRedisson(ctx, p, s, progress) },
	}
}

// startRedisson returns when the JVM is connected. One goroutine uses the session.
func startRedisson(ctx context.Context, p JVMProgram, s Setup, progress io.Writer) (*Session, error) {
	if _, err := fmt.Fprintf(progress, "warm  Redisson %s\n", p.Redisson); err != nil {
		return nil, err
	}
	jvm, err := crews.Start(ctx, jvmStop, progress, nil, "java", "-cp", p.Classpath, p.Source, s.Addrs[0], millis(s))
	if err != nil {
		return nil, err
	}
	if err := jvm.Ready(ctx, jvmStart); err != nil {
		jvm.Kill() // it is not needed any more, however busy it is
		return nil, errors.Join(err, jvm.Close())
	}
	return &Session{Close: jvm.Close, RunCell: func(ctx context.Context, limit time.Duration, order, figures any) error {
		ctx, cancel := context.WithTimeout(ctx, limit+jvmGrace)
		defer cancel()
		err := jvm.Say(order)
		if err == nil {
			err = jvm.Answer(ctx, figures)
		}
		if err != nil {
			jvm.Kill() // so that close does not wait for it
		}
		return err
	}}, nil
}

// A JVMProgram is the Java program, with what it needs to start.
type JVMProgram struct {
	Classpath string
	Source    string
	Redisson  string // its version
	Java      string // its version
}

// repository files that the Java program needs, from the root.
const (
	javaPOM    = "interop/java/pom.xml" // says which Redisson
	javaSource = "bench/java/RedissonBench.java"
	javaTarget = "bench/java/target"
)

// PrepareJVM looks for a JDK and Maven, and has Maven fetch the Redisson that the
// interop tests run against.
func PrepareJVM(ctx context.Context) (p JVMProgram, err error) {
	if err := needJVM(); err != nil {
		return p, err
	}
	root, err := repositoryRoot()
	if err != nil {
		return p, err
	}
	target := filepath.Join(root, javaTarget)
	lib := filepath.Join(target, "lib")
	fetch := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(root, javaPOM), "-Dtarget="+target, //nolint:gosec // our own paths
		"dependency:copy-dependencies", "-DoutputDirectory="+lib)
	if text, err := fetch.CombinedOutput(); err != nil {
		return p, fmt.Errorf("mvn: %w: %s", err, text)
	}
	p = JVMProgram{Classpath: filepath.Join(lib, "*"), Source: filepath.Join(root, javaSource)}
	if p.Redisson, err = jarVersion(lib); err != nil {
		return p, err
	}
	text, err := exec.CommandContext(ctx, "java", "--version").Output()
	if err != nil {
		return p, fmt.Errorf("java --version: %w", err)
	}
	p.Java, _, _ = strings.Cut(string(text), "\n")
	return p, nil
}

// needJVM looks for the same programs as tools/need-jvm, which installs them.
func needJVM() error {
	for _, program := range []string{"javac", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("--redisson needs a JDK (17 or newer) and Maven: run tools/need-jvm: %w", err)
		}
	}
	return nil
}

// repositoryRoot returns the directory at or above this one that has the Java
// program's files.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, javaSource)); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("--redisson works inside the repository only: " + javaSource + " is not here")
		}
		dir = parent
	}
}

// jarVersion returns the version of the one Redisson in the directory.
func jarVersion(lib string) (string, error) {
	const prefix, suffix = "redisson-", ".jar"
	jars, err := filepath.Glob(filepath.Join(lib, prefix+"[0-9]*"+suffix))
	if err != nil {
		return "", err
	}
	if len(jars) != 1 {
		return "", fmt.Errorf("one Redisson is needed in %s, there are %d; delete the directory", lib, len(jars))
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), prefix), suffix), nil
}
