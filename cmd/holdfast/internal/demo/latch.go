package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
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

// race is a starting gun, and a finish.
type race struct {
	*show
	start, finish string
	started       chan time.Time // when one has heard the gun
	finished      chan time.Time // when one is about to count down
	failures      chan error     // how each has ended
	ended         int            // how many have
}

// latch names a latch of a scene, and minds what stays beside it for a minute.
func (s *show) latch(name string) string {
	key := s.key(name)
	s.lastingKey(protocol.CallsKey(key))
	s.lastingKey(protocol.LatchZeroKey(key))
	return key
}

// race lets runners wait for a gun, and a judge for the runners.
func (s *show) race(ctx context.Context) error {
	s.Stage.Say(fmt.Sprintf("%d runners wait for a latch with the count 1, the gun. Each has a client of its own, like %d processes. "+
		"A judge waits for a second latch with the count %d, from which each runner takes one when it arrives.", runners, runners, runners))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &race{
		show: s, start: s.latch("start"), finish: s.latch("finish"),
		started: make(chan time.Time, runners), finished: make(chan time.Time, runners), failures: make(chan error, runners),
	}
	judge, done, err := s.client(nil)
	if err != nil {
		return err
	}
	defer done()
	if err := r.setUp(ctx, judge); err != nil {
		return err
	}
	for range runners {
		client, done, err := s.client(nil)
		if err != nil {
			return err
		}
		defer done()
		go func() { r.failures <- r.run(ctx, client) }()
	}
	if err := pause(ctx, beforeGun); err != nil {
		return err
	}
	if n := len(r.started); n > 0 {
		return fmt.Errorf("%d runners started before the gun", n)
	}
	s.Stage.Point(millis(beforeGun) + " later nobody has started.")
	gun := time.Now()
	if err := judge.NewLatch(r.start).CountDown(); err != nil {
		return err
	}
	arrived := make(chan error, 1)
	go func() { arrived <- judge.NewLatch(r.finish).Await(ctx) }()
	if err := r.watch(ctx, gun, arrived); err != nil {
		return err
	}
	return r.result(ctx, gun, time.Now())
}

func (r *race) setUp(ctx context.Context, judge *holdfast.Client) error {
	for name, n := range map[string]int{r.start: 1, r.finish: runners} {
		first, err := judge.NewLatch(name).TrySetCount(ctx, n)
		if err == nil && !first {
			err = errors.New("a latch was there already")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// run is one runner.
func (r *race) run(ctx context.Context, client *holdfast.Client) error {
	if err := client.NewLatch(r.start).Await(ctx); err != nil {
		return err
	}
	r.started <- time.Now()
	if err := pause(ctx, between{200, 1200}.randomly()); err != nil {
		return err
	}
	r.finished <- time.Now()
	return client.NewLatch(r.finish).CountDown()
}

// watch shows the second latch until the judge goes on.
func (r *race) watch(ctx context.Context, gun time.Time, arrived chan error) error {
	tick := time.NewTicker(sample)
	defer tick.Stop()
	for {
		select {
		case err := <-arrived:
			r.Stage.Keep()
			return err
		case err := <-r.failures:
			if r.ended++; err != nil {
				return err
			}
			continue
		case <-tick.C:
		}
		count, err := r.rdb.Get(ctx, r.finish).Result()
		if errors.Is(err, redis.Nil) {
			count, err = "that there is no key", nil
		}
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s after the gun  GET answers %s", seconds(time.Since(gun)), count)
		r.Stage.Live([]string{line}, line)
	}
}

// result compares the times.
func (r *race) result(ctx context.Context, gun, goesOn time.Time) error {
	var started, finished []time.Time
	for ; r.ended < runners; r.ended++ {
		if err := <-r.failures; err != nil {
			return err
		}
	}
	for range runners {
		started, finished = append(started, <-r.started), append(finished, <-r.finished)
	}
	first, last := slices.MinFunc(started, time.Time.Compare).Sub(gun), slices.MaxFunc(started, time.Time.Compare).Sub(gun)
	arrival := slices.MaxFunc(finished, time.Time.Compare)
	r.Stage.Point(fmt.Sprintf("The runners started from %s to %s after the gun.", millis(first), millis(last)))
	r.Stage.Point(fmt.Sprintf("The judge went on %s after the last one had arrived.", millis(goesOn.Sub(arrival))))
	r.measuredf("Latch: %d runners started within %s of the gun.", runners, millis(last))
	r.measuredf("Latch: the judge went on when all %d had arrived.", runners)
	n, err := r.rdb.Exists(ctx, r.start).Result()
	switch {
	case err != nil:
		return err
	case n > 0:
		return errors.New("the gun was fired, but its latch is still there")
	case first < 0 || last > late:
		return fmt.Errorf("the runners started from %v to %v after the gun", first, last)
	case goesOn.Before(arrival):
		return errors.New("the judge went on before all runners had arrived")
	}
	return nil
}
