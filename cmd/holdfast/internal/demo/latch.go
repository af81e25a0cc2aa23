package demo

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/visible"
)

const (
	runners = 5
	// beforeGun is how long they stand at the line.
	beforeGun = 700 * time.Millisecond
)

var latchShow = Show{
	Name:  "latch",
	About: "workers wait for a start, and one waits for all of them",
	intro: "A latch there is a number that goes down to zero, and is then gone.",
	scenes: []scene{
		{"Ready, steady, go", (*show).race},
	},
}

// newLatch sets a latch up, and minds what stays beside it for a minute.
func (s *show) newLatch(judge *holdfast.Client, name string, count int) *holdfast.Latch {
	key := s.key(name)
	s.lasting = append(s.lasting, protocol.CallsKey(key), protocol.LatchZeroKey(key))
	latch := judge.NewLatch(key)
	promise(must(latch.TrySetCount(s.ctx, count)), "a latch was there already")
	return latch
}

// race lets runners wait for a gun, and a judge for the runners.
func (s *show) race() {
	s.sayf("%d runners wait for a latch with the count 1, the gun. Each has a client of its own, like %d processes. "+
		"A judge waits for a second latch with the count %d, from which each runner takes one when it arrives.",
		runners, runners, runners)
	judge := s.client()
	start, finish := s.newLatch(judge, "start", 1), s.newLatch(judge, "finish", runners)
	var begun atomic.Int32
	started, arrived := make([]time.Time, runners), make([]time.Time, runners)
	group, ctx := errgroup.WithContext(s.ctx)
	for i := range runners {
		client := s.client()
		group.Go(func() error {
			if err := client.NewLatch(start.Name()).Await(ctx); err != nil {
				return err
			}
			started[i] = time.Now()
			begun.Add(1)
			time.Sleep(between{200, 1200}.randomly())
			arrived[i] = time.Now()
			return client.NewLatch(finish.Name()).CountDown()
		})
	}
	s.pause(beforeGun)
	promise(begun.Load() == 0, "%d runners started before the gun", begun.Load())
	s.pointf("%s later nobody has started.", millis(beforeGun))
	gun := time.Now()
	check(start.CountDown())
	goesOn := make(chan time.Time, 1)
	group.Go(func() error {
		err := finish.Await(ctx)
		goesOn <- time.Now()
		return err
	})
	wentOn := until(s, goesOn, func() {
		count := s.rdb.Get(s.ctx, finish.Name()).Val() // there is none when it has come to zero
		s.livef("%s after the gun  GET answers %s", seconds(time.Since(gun)), visible.Text(fmt.Sprintf("%q", count)))
	})
	s.Stage.keep()
	check(group.Wait())
	arrival := slices.MaxFunc(arrived, time.Time.Compare)
	slices.SortFunc(started, time.Time.Compare)
	first, last := started[0].Sub(gun), started[runners-1].Sub(gun)
	s.pointf("The runners started from %s to %s after the gun.", millis(first), millis(last))
	s.pointf("The judge went on %s after the last one had arrived.", millis(wentOn.Sub(arrival)))
	s.measuredf("Latch: %d runners started within %s of the gun.", runners, millis(last))
	s.measuredf("Latch: the judge went on when all %d had arrived.", runners)
	promise(first >= 0 && last <= late, "the runners started from %v to %v after the gun", first, last)
	promise(!wentOn.Before(arrival), "the judge went on before all runners had arrived")
	promise(must(s.rdb.Exists(s.ctx, start.Name()).Result()) == 0, "the gun was fired, but its latch is still there")
}
