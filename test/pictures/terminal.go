//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// shot is a picture to be taken.
type shot struct {
	name, about string
	wide, high  int // of the terminal; 0: 80 columns, 24 rows
	before      func(ctx context.Context, s *scene) error
	steps       []step
}

// step is what is typed, and what is to be seen before it goes on.
type step struct {
	types string // a line for the shell
	key   string // or one key, as tmux calls it
	until string // a pattern
}

func (p shot) columns() int { return cmp.Or(p.wide, 80) }

// seen is for how long a step may take until that is to be seen which it waits for.
const seen = 30 * time.Second

// take types the steps into a shell, and returns what is on the screen then, with the colours.
func (p shot) take(ctx context.Context, temp string) (screen string, err error) {
	tmux := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-f", "/dev/null", "-S", filepath.Join(temp, p.name)}, args...)...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, out)
		}
		return string(out), nil
	}
	shell := []string{
		"env", "-i", "PATH=" + temp + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + temp, "LANG=C.UTF-8", "TERM=screen-256color", "PS1=$ ", "HISTFILE=/dev/null", "MANPAGER=cat", "MANROFFOPT=-c",
		"HOLDFAST_REDIS=redis://" + address, "bash", "--norc", "--noprofile",
	}
	_, err = tmux(append([]string{"new-session", "-d", "-x", strconv.Itoa(p.columns()), "-y", strconv.Itoa(cmp.Or(p.high, 24)), "-c", temp}, shell...)...)
	if err != nil {
		return "", err
	}
	defer func() {
		_, endErr := tmux("kill-server")
		err = errors.Join(err, endErr)
	}()
	if err := await(ctx, tmux, `^\$`); err != nil {
		return "", err
	}
	for _, s := range p.steps {
		keys := []string{"send-keys", s.key}
		if s.types != "" {
			keys = []string{"send-keys", "-l", s.types, ";", "send-keys", "Enter"}
		}
		if _, err := tmux(keys...); err != nil {
			return "", err
		}
		if err := await(ctx, tmux, s.until); err != nil {
			return "", err
		}
	}
	screen, err = tmux("capture-pane", "-p", "-e")
	screen = strings.TrimSuffix(strings.TrimRight(screen, "\n"), "\n$") // the next prompt
	return strings.TrimRight(screen, "\n"), err
}

// await looks at the screen until the pattern is on it.
func await(ctx context.Context, tmux func(...string) (string, error), pattern string) error {
	wanted, err := regexp.Compile("(?ms)" + pattern)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, seen)
	defer cancel()
	for {
		screen, err := tmux("capture-pane", "-p")
		switch {
		case err != nil:
			return err
		case wanted.MatchString(screen):
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no %q on the screen:\n%s", pattern, screen)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
