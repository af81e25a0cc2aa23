package neighbours

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// anybodys are the commands that Redis executes for any user, whatever its rights: see TestNeighbourResets.
var anybodys = []string{"auth", "hello", "quit", "reset"}

// TestNeighbourCommands: the neighbour sends every command that the server knows, with our keys where it takes keys, directly and
// from a script. The server refuses the commands that are not in docs/acl.md, and the others for our keys.
func TestNeighbourCommands(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.besieged(t, func(t *testing.T, all []*victim) { w.sendAll(t, all[0].name) })
}

// TestNeighbourCommandsOnCluster is TestNeighbourCommands on a cluster.
func TestNeighbourCommandsOnCluster(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	w.besieged(t, func(t *testing.T, all []*victim) {
		w.sendAll(t, all[0].name)
		w.publishAll(t, all)
	})
}

// sendAll sends every command about one of our locks.
func (w *town) sendAll(t *testing.T, name string) {
	t.Helper()
	granted := w.rules(t, "theirs")
	keys := keysOf(name)
	commands := w.commands(t)
	if len(commands) < 200 {
		t.Fatalf("the server knows only %d commands", len(commands))
	}
	for _, c := range commands {
		if slices.Contains(anybodys, c.name) || w.disabled(c.name) {
			continue
		}
		container, _, _ := strings.Cut(c.name, "|")
		if !slices.Contains(granted, "+"+c.name) && !slices.Contains(granted, "+"+container) {
			args := c.with(name)
			w.refused(t, args...)
			w.refused(t, append([]any{"EVAL", "return redis.call(unpack(ARGV))", 0}, args...)...)
			continue
		}
		if c.firstKey == 0 || c.ofChannels() {
			continue // these have tests of their own
		}
		for _, key := range keys {
			args := c.with(key)
			w.refused(t, args...)
			w.refused(t, append([]any{"EVAL", "return redis.call(unpack(ARGV))", 0}, args...)...)
			w.refused(t, append([]any{"EVAL", "return redis.call(unpack(ARGV))", 1, key}, args...)...)
		}
	}
	// Of several keys one is ours.
	for _, args := range [][]any{
		{"DEL", "theirs:x", name},
		{"EXISTS", "theirs:x", name},
		{"UNLINK", "theirs:x", name},
		{"EVAL", "return 1", 2, "theirs:x", name},
		{"EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", 2, "theirs:x", name},
	} {
		w.refused(t, args...)
	}
}

// disabled reports whether the server refuses a command to everybody, as a node of a cluster does here.
func (w *town) disabled(name string) bool {
	return len(w.nodes) > 1 && (name == "debug" || strings.HasPrefix(name, "module|load") || name == "module|unload")
}

// ofChannels reports whether what the server calls a command's keys are channels.
func (c command) ofChannels() bool {
	return strings.HasSuffix(c.name, "publish") || strings.HasSuffix(c.name, "subscribe")
}

// A command is one that the server knows, or one of its subcommands, with a | as in rights.
type command struct {
	name                           string
	words                          int // at least, with its name
	firstKey, lastKey, betweenKeys int
}

// with returns the command's arguments with a key of ours wherever it takes keys, and 1 elsewhere.
func (c command) with(key string) (args []any) {
	for word := range strings.SplitSeq(c.name, "|") {
		args = append(args, word)
	}
	for len(args) < c.words {
		args = append(args, "1")
	}
	for i := c.firstKey; c.firstKey > 0 && i < len(args); i += max(c.betweenKeys, 1) {
		args[i] = key
		if i == c.lastKey {
			break
		}
	}
	return args
}

// commands returns what the server knows. Before Redis 7.0 it does not name subcommands: a container is refused as a whole.
func (w *town) commands(t *testing.T) (all []command) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: w.nodes[0].Addr(), Protocol: 2})
	t.Cleanup(func() { _ = rdb.Close() })
	reply, err := rdb.Do(background, "COMMAND").Slice()
	kit.OK(t, err)
	var add func(reply []any)
	add = func(reply []any) {
		for _, item := range reply {
			about := item.([]any)
			c := command{name: about[0].(string), words: number(about[1]), firstKey: number(about[3]), lastKey: number(about[4]), betweenKeys: number(about[5])}
			c.words = max(c.words, -c.words)
			var parts []any
			if len(about) > 9 {
				parts, _ = about[9].([]any)
			}
			if add(parts); len(parts) == 0 {
				all = append(all, c)
			}
		}
	}
	add(reply)
	return all
}

func number(item any) int { return int(item.(int64)) }

// TestNeighbourResets: RESET makes the neighbour the default user. So a shared server needs a password for that user.
func TestNeighbourResets(t *testing.T) {
	t.Parallel()
	if !redistest.AtLeast(t, 6, 2) {
		return // there is no RESET
	}
	w := newTown(t)
	w.admin.Do(t, "", "SET", "ours:x", "1")
	conn := w.theirs.Conn()
	defer conn.Close()
	reads := func() error {
		kit.OK(t, conn.Do(background, "RESET").Err())
		return conn.Do(background, "GET", "ours:x").Err()
	}
	kit.OK(t, reads())
	w.admin.Do(t, "", "CONFIG", "SET", "requirepass", defaultPassword)
	if err := reads(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("after RESET: %v", err)
	}
	if err := conn.Do(background, "AUTH", "ours", "pw1").Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("a guessed password: %v", err)
	}
}
