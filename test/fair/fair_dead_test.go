package fair

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// What dead waiters of a fair lock cost those who live, and what they leave.

// L9: what the dead leave goes by itself, and at once if one who lives was the last.
func TestL9_TheDeadLeaveNothing(t *testing.T) {
	for name, row := range map[string]struct {
		living int
		last   func(s *stage, living []*kit.Standing)
	}{
		"nobody asks": {0, func(s *stage, _ []*kit.Standing) {
			s.release()
			time.Sleep(2*time.Minute - 15*time.Second)
		}},
		"one tries": {0, func(s *stage, _ []*kit.Standing) {
			s.release()
			kit.Unlock(s.T, kit.Must(s.T)(s.newLock().TryLock(background)))
			time.Sleep(2*time.Minute - 15*time.Second)
		}},
		"one has waited": {1, func(s *stage, living []*kit.Standing) {
			s.release()
			s.takeTurns(living...)
		}},
		"one has given up": {1, func(s *stage, living []*kit.Standing) {
			living[0].Cancel(nil)
			s.wantNoLine()
			s.release()
		}},
		"one has closed its client": {2, func(s *stage, living []*kit.Standing) {
			kit.OK(s.T, living[0].C.Close())
			start := s.release()
			s.takeTurns(living[1])
			s.within(start, 0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(s *stage) {
				living := s.line(row.living)
				for _, dead := range s.line(3) {
					cutOff(dead)
					defer dead.Cancel(nil)
				}
				time.Sleep(15 * time.Second)
				row.last(s, living)
				s.wantNoLine()
			})
		})
	}
}

// A lock is had past one who is not heard of any more, however often somebody asks, and however long each of
// them waits: when the grant ends, or, if it was not granted the lock, when it has not been heard of for four and a
// half seconds.
func TestDeadWaiterKeepsNobodyOutForLong(t *testing.T) {
	for name, wait := range map[string]time.Duration{"TryLock": 0, "Lock": 100 * time.Millisecond} {
		for i, every := range []time.Duration{time.Second / 2, 5 * time.Second, 10 * time.Second, time.Minute} {
			granted := i%2 == 0
			t.Run(fmt.Sprint(name, "/", every), func(t *testing.T) {
				fake(t, func(s *stage) {
					dead := s.stand()
					defer dead.Cancel(nil)
					cutOff(dead)
					keepsNobodyOutFor := 4400 * time.Millisecond
					if granted {
						s.release()
						keepsNobodyOutFor = kit.GrantLasts
					} else {
						s.Do("DEL", "x") // a release would grant it all the same
					}
					heard, mu := time.Now(), s.newLock()
					h, err := mu.Lock(background, holdfast.Wait(wait))
					for ; err != nil; h, err = mu.Lock(background, holdfast.Wait(wait)) {
						kit.WantError(s.T, err, holdfast.ErrLocked)
						time.Sleep(every)
					}
					if took := time.Since(heard); took < keepsNobodyOutFor {
						s.Errorf("had after %v", took)
					}
					s.within(heard, keepsNobodyOutFor+400*time.Millisecond+every)
					kit.Unlock(s.T, h)
					time.Sleep(2 * time.Minute)
				})
			})
		}
	}
}

// One that was passed because nobody had heard of it keeps its place if it lives.
func TestL8_WhoIsPassedKeepsItsPlace(t *testing.T) {
	fake(t, func(s *stage) {
		first := s.stand()
		cutOff(first)
		s.Do("DEL", "x") // a release would grant it to the first
		time.Sleep(15 * time.Second)
		s.h = kit.Must(s.T)(s.newLock().TryLock(background))
		second := s.stand()
		back(first)
		time.Sleep(4 * time.Second)
		s.wantLine(first, second)
		s.release()
		s.takeTurns(first, second)
	})
}
