//go:build unix

package connect

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fifo makes a FIFO, and returns what writes to it once, for one reader.
func fifo(t *testing.T) (name string, write func(text string)) {
	t.Helper()
	name = t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	t.Cleanup(writers.Wait)
	return name, func(text string) {
		writers.Go(func() {
			if err := os.WriteFile(name, []byte(text), 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPipeIsReadOnce: what can be read only once serves every connection, and every flag that names it; a regular file is read anew.
func TestPipeIsReadOnce(t *testing.T) {
	t.Parallel()
	name, write := fifo(t)
	write("s3cret\n")
	p := Password{File: name}
	target, err := Options{URL: "redis+sentinel://h/m", Password: p, SentinelPassword: p}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, one, err := target.credentials(t.Context())
		_, other, failed := target.sentinelCredentials(t.Context())
		if one != "s3cret" || other != "s3cret" || err != nil || failed != nil {
			t.Errorf("%q, %v, %q, %v", one, err, other, failed)
		}
	}
	if kept, once := target.ReadOnce(name); kept != "s3cret" || !once {
		t.Errorf("%q, %v", kept, once)
	}
	file := t.TempDir() + "/regular"
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if target == nil || target.options.Password.File != file {
			if target, err = (Options{URL: "redis://h", Password: Password{File: file}}).Resolve(); err != nil {
				t.Fatal(err)
			}
		}
		if _, got, err := target.credentials(t.Context()); got != text || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if kept, once := target.ReadOnce(file); once {
		t.Errorf("%q is kept", kept)
	}
}

// TestPipeWithoutWriter: nobody waits for ever for a pipe, and each wait ends with its context; what is written later is still read.
func TestPipeWithoutWriter(t *testing.T) {
	t.Parallel()
	name, write := fifo(t)
	f := &files{limit: time.Millisecond}
	if _, err := f.read(t.Context(), name, "password"); err == nil || !strings.Contains(err.Error(), "had no end after 1ms") {
		t.Error(err)
	}
	f.limit = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.read(ctx, name, "password"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(f.known) != 1 {
		t.Errorf("it is read %d times at once", len(f.known))
	}
	write("late")
	for range 2 {
		if got, err := f.read(t.Context(), name, "password"); string(got) != "late" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// TestFilesThatAreNone: each is refused at once, by what is wrong with it, and read with a bound.
func TestFilesThatAreNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	if err := errors.Join(os.Symlink(dir+"/b", dir+"/a"), os.Symlink(dir+"/a", dir+"/b"), os.Symlink(dir+"/nothing", dir+"/c")); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", dir+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for name, want := range map[string]string{
		dir:                                      "is a directory",
		dir + "/socket":                          "is a socket",
		dir + "/nothing":                         "no such file",
		dir + "/a":                               "too many",
		dir + "/c":                               "no such file",
		"-":                                      "/dev/stdin is",
		"/dev/zero":                              "is longer than 1024 KiB",
		"/dev/null":                              "has no password in its first line",
		file("empty", ""):                        "has no password in its first line",
		file("blank", " \nx"):                    "has no password in its first line",
		file("long", strings.Repeat("x", 3<<20)): "is longer than 1024 KiB",
		file("lines", "pw\n"+strings.Repeat("x\n", 1<<20)): "is longer than 1024 KiB",
		file("nul", "a\x00b"):                              "has an invisible character",
	} {
		for _, o := range []Options{
			{URL: "redis://h", Password: Password{File: name}}, {URL: "redis+sentinel://h/m", SentinelPassword: Password{File: name}},
		} {
			if _, err := o.Resolve(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := FirstLine(name, "password"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(want, "first line") || strings.Contains(want, "invisible") {
			want = "" // of a certificate something else
		}
		for _, o := range []Options{
			{URL: "rediss://h", CAFile: name}, {URL: "rediss://h", CertFile: name, KeyFile: name},
		} {
			if _, err := o.Resolve(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
