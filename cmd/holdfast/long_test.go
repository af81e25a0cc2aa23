//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// done is what has come of a command.
type done struct {
	code        int
	out, said   string
	lines, wide int // of out
}

func ends(t *testing.T, cmd *exec.Cmd) (d done) {
	t.Helper()
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	d.code = code(t, cmd.Run())
	d.out, d.said = out.String(), said.String()
	for line := range strings.Lines(d.out) {
		d.lines++
		d.wide = max(d.wide, len(line))
	}
	return d
}

// TestLongNames has others write names, owners and counts of megabytes among the locks: what is shown of them is short.
func TestLongNames(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := "redis://" + server.Addr()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	do := func(args ...any) {
		t.Helper()
		if err := rdb.Do(context.Background(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	const locks, long = 20, 12
	for i := range locks {
		do("HSET", fmt.Sprint("job:", i), javaOwner, 1)
	}
	huge := strings.Repeat("x", 4<<20)
	for i := range long {
		do("HSET", fmt.Sprint(huge, i), javaOwner, 1)
		do("HSET", fmt.Sprintf("{%s%d}", huge, long-i), javaOwner, 1)
	}
	do("HSET", "owner", huge+":1", 1)
	do("HSET", "value", javaOwner, strings.Repeat("9", 4<<20))
	wide := strings.Repeat("\x01", 1024) // of which each byte is four letters
	do("HSET", wide, javaOwner, 1)
	note := fmt.Sprintf("holdfast: left out: %d names of more than 1024 bytes, which no lock has\n", 2*long)
	if got := ends(t, holdfast(t, url, "ls")); got.code != 0 || got.said != note || got.lines != locks+3 || got.wide > 500 {
		t.Errorf("ls: exit code %d, %d lines of at most %d: %s", got.code, got.lines, got.wide, got.said)
	}
	got := ends(t, holdfast(t, url, "ls", "--json"))
	if got.code != 0 || got.said != note || got.lines != locks+2 || got.wide > 10_000 {
		t.Errorf("ls --json: exit code %d, %d lines of at most %d: %s", got.code, got.lines, got.wide, got.said)
	}
	names := map[string]bool{}
	for line := range strings.Lines(got.out) {
		var l struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		names[l.Name] = true
	}
	if !names[wide] || !names["value"] {
		t.Error("--json does not have the whole names")
	}
	for _, c := range []struct {
		line string
		code int
	}{
		{"show value", 0},
		{"show owner", 65},
		{"wait --wait 0 value", 75},
		{"wait --wait 0 owner", 65},
		{"run --try owner -- true", 75},
		{"run --try value -- true", 75},
		{"unlock --force -y owner", 65},
		{"unlock --force -y value", 0},
	} {
		if got := ends(t, holdfast(t, url, strings.Fields(c.line)...)); got.code != c.code || len(got.out) > 1000 || len(got.said) > 1000 {
			t.Errorf("%s: exit code %d, want %d; %d bytes, and %.1000s", c.line, got.code, c.code, len(got.out), got.said)
		}
	}
}
