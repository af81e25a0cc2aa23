package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// longestFile is how many bytes a file may have: passwords and certificates have less.
	longestFile = 1 << 20
	// fileLimit is how long a file may take. A pipe ends when its writer closes it.
	fileLimit = 10 * time.Second
)

// files are the files that options name. A regular file is read anew each time, since its content may have been replaced. Anything else, such
// as a FIFO, /dev/stdin or <(…) of a shell, can be read only once, so its content is kept. The zero files were not read yet.
type files struct {
	limit time.Duration // 0: fileLimit

	mu    sync.Mutex
	known map[string]*content // being read, or kept
}

// content is that of a file, once done is closed.
type content struct {
	done chan struct{}
	text []byte
	err  error
}

// read returns the content of a file. Errors call it the "what file", such as the password file.
func (f *files) read(ctx context.Context, name, what string) ([]byte, error) {
	limit := f.limit
	if limit == 0 {
		limit = fileLimit
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	c := f.content(name)
	var err error
	select {
	case <-c.done:
		err = c.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = fmt.Errorf("%s had no end after %v; whatever writes to a pipe has to close it", name, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("the %s file cannot be read: %w", what, err)
	}
	return c.text, nil
}

// content returns what is known of a file, and begins to read it if that is nothing.
func (f *files) content(name string) *content {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.known[name]; c != nil {
		return c
	}
	c := &content{done: make(chan struct{})}
	if f.known == nil {
		f.known = map[string]*content{}
	}
	f.known[name] = c
	go f.fill(name, c) // ends with the file, or with the program: there is one for each name at most
	return c
}

func (f *files) fill(name string, c *content) {
	var once bool
	c.text, once, c.err = readFile(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !once || c.err != nil {
		delete(f.known, name)
	}
	close(c.done)
}

// readFile reads a file with a bound, and reports whether it can be read only once.
func readFile(name string) (text []byte, once bool, err error) {
	if name == "-" {
		return nil, false, errors.New("- is not standard input here, but /dev/stdin is")
	}
	about, err := os.Stat(name)
	if err != nil {
		return nil, false, err
	}
	switch mode := about.Mode(); {
	case mode.IsDir():
		return nil, false, errors.New(name + " is a directory")
	case mode&fs.ModeSocket != 0:
		return nil, false, errors.New(name + " is a socket")
	}
	file, err := os.Open(name) //nolint:gosec // whoever starts the tool names it
	if err != nil {
		return nil, false, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if about, err = file.Stat(); err != nil {
		return nil, false, err
	}
	once = !about.Mode().IsRegular()
	if text, err = io.ReadAll(io.LimitReader(file, longestFile+1)); err != nil {
		return nil, once, err
	}
	if len(text) > longestFile {
		return nil, once, fmt.Errorf("%s is longer than %d KiB", name, longestFile>>10)
	}
	return text, once, nil
}

// firstLine reads a secret from the first line of a file. Errors call the secret by what, such as "password".
func (f *files) firstLine(ctx context.Context, file, what string) (string, error) {
	text, err := f.read(ctx, file, what)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line, err = secret(line, fmt.Sprintf("the first line of the %s file %s", what, file)); line == "" && err == nil {
		return "", fmt.Errorf("the %s file %s has no %s in its first line", what, file, what)
	}
	return line, err
}

// FirstLine reads a secret from the first line of a file. Errors call the secret by what, such as "password". It takes ten seconds at most, also if the file is
// a pipe that nobody writes to, and refuses more than a MiB.
func FirstLine(file, what string) (string, error) {
	return new(files).firstLine(context.Background(), file, what)
}

// ReadOnce returns the password in a file, and true, if the file was read and cannot be read again. Then another process that needs the
// password cannot get it from the file.
func (t *Target) ReadOnce(file string) (string, bool) {
	if !t.files.keeps(file) {
		return "", false
	}
	line, err := t.files.firstLine(context.Background(), file, "password")
	return line, err == nil
}

// keeps reports whether the content of a file is kept.
func (f *files) keeps(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.known[name]
	if c == nil {
		return false
	}
	select {
	case <-c.done:
		return true
	default:
		return false // it is being read
	}
}
