//go:build unix

// Command pictures makes the pictures in docs/looks: it starts a redis-server and holds locks on it, types
// commands into a shell in tmux, and writes what is then on the screen as SVG. The hosts and programs are made up, all else
// is what the commands say. Use: go run ./test/pictures docs/looks
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"
)

// patience is for how long all of it may take.
const patience = 5 * time.Minute

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pictures <directory>")
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := makeAll(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1) //nolint:gocritic // nothing that is deferred outlives the program
	}
}

func makeAll(ctx context.Context, dir string) (err error) {
	for _, program := range []string{"tmux", "redis-server", "bash", "man"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is needed: %w", program, err)
		}
	}
	temp, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	fmt.Println("building the tool")
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(temp, "holdfast"), "github.com/holdfast-go/holdfast/cmd/holdfast")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	if err := os.WriteFile(filepath.Join(temp, "report.sh"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		return err
	}
	s, err := setUp(ctx, temp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range all {
		fmt.Println(p.name)
		if err := p.make(ctx, s, temp, dir); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// make takes the picture and writes it.
func (p shot) make(ctx context.Context, s *scene, temp, dir string) error {
	if p.before != nil {
		if err := p.before(ctx, s); err != nil {
			return err
		}
	}
	screen, err := p.take(ctx, temp)
	if err != nil {
		return err
	}
	picture, err := draw(screen, p.columns(), p.about)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, p.name+".svg"), picture, 0o644)
}
