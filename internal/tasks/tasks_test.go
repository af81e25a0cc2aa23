package tasks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/faketime"
)

func TestWaitAwaitsTasksOfTasks(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var g Group
		first, second := make(chan struct{}), make(chan struct{})
		g.Go(func() {
			<-first
			g.Go(func() { <-second })
		})
		waited := make(chan error, 1)
		go func() { waited <- g.Wait(context.Background()) }()
		for _, gate := range []chan struct{}{first, second} {
			synctest.Wait()
			select {
			case <-waited:
				t.Fatal("Wait returned while a task was running")
			default:
			}
			close(gate)
		}
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		if g.Begin() || g.Go(func() {}) {
			t.Fatal("a task began after Wait")
		}
	})
}

func TestWaitIsBounded(t *testing.T) {
	var g Group
	g.Begin()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := g.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if !g.Begin() {
		t.Fatal("an unfinished group refuses tasks")
	}
}

func TestSeveral(t *testing.T) {
	var g Group
	for i, want := range []bool{false, false, true} {
		if g.Several() != want {
			t.Errorf("with %d tasks: %t", i, !want)
		}
		g.Begin()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = g.Wait(ctx)
	if !g.Several() {
		t.Error("three tasks that are awaited are not several")
	}
	for range 3 {
		g.End()
	}
	if err := g.Wait(t.Context()); err != nil || g.Several() {
		t.Error("several after the end", err)
	}
}
