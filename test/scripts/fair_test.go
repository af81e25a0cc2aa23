package scripts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// This file is about what fair locks do otherwise than plain ones. What waiters make of it is in package fair.

// One who does not listen, or has not asked with a number, keeps its place, and nobody is let in before it. It is told, wherever it may
// hear.
func TestFairTells(t *testing.T) {
	everywhere(t, "fair", 0, func(s *stage) {
		s.play(`
			holder tries          | done      | holder 30s | -           |
			deaf asks a           | refused 0 | holder 30s | deaf        |
			second asks b         | refused 1 | holder 30s | deaf second |
			holder releases       | done      | -          | deaf second |
			stranger tries        | refused   | -          | deaf second |
			second asks c         | refused 1 | -          | deaf second |
			deaf waits            | done      | deaf 30s   | second      |
			deaf releases         | done      | second 3s  | -           | second:c
			second releases       | done      | -          | -           |

			holder tries          | done      | holder 30s | -            |
			first waits           | refused   | holder 30s | first        |
			second asks b         | refused 1 | holder 30s | first second |
			holder releases       | done      | -          | first second | first:told
			stranger tries        | refused   | -          | first second | first:told
			second asks c         | refused 1 | -          | first second | first:told
			first waits           | done      | first 30s  | second       |
		`)
	})
}

// One of Redisson's is told as by Redisson, and the lock is kept for it. Who waits with it hears that it is to listen, too.
func TestFairRedisson(t *testing.T) {
	everywhere(t, "fair", 0, func(s *stage) {
		s.play(`
			holder tries          | done              | holder 30s | -                  |
			before asks a         | refused 0         | holder 30s | before             |
			redis RPUSH LINE @java
		`)
		s.step(fmt.Sprintf("redis ZADD TIMES %d @java", s.now()+300_000))
		s.play(`
			behind asks b         | refused 2 listens | holder 30s | before java behind |
			before asks a         | refused 0 listens | holder 30s | before java behind |
		`)
		s.wrong("with java", "life of the line", s.do("PTTL", s.keys["LINE"]), "-1")
		s.play(`
			holder releases       | done              | before 3s  | java behind        | before:a
			before releases       | done              | -          | java behind        | java:told
			stranger tries        | refused           | -          | java behind        | java:told
			redis HSET LOCK @java 1
			redis LPOP LINE
			redis ZREM TIMES @java
			behind asks b         | refused 0 listens |            | behind             |
			redis DEL LOCK
			behind asks b         | done              | behind 30s | -                  |
		`)
	})
}

// A Redisson client drops the first entry when its score has passed. So the score of one that becomes the first is raised.
func TestFairSparesRedisson(t *testing.T) {
	everywhere(t, "fair", 0, func(s *stage) {
		s.play(`
			holder tries          | done      | holder 30s | -         |
			deaf asks a           | refused 0 | holder 30s | deaf      |
			redis RPUSH LINE @java
		`)
		s.step(fmt.Sprintf("redis ZADD TIMES %d @java", s.now()+10_000))
		s.play(`
			holder releases       | done      | -          | deaf java |
			deaf leaves           | done      | -          | java      | java:told
		`)
		if left := kit.Number(s.do("ZSCORE", s.keys["TIMES"], s.actor("java").owner)) - s.now(); left < 25_000 {
			s.t.Errorf("java is dropped in %d ms", left)
		}
	})
}

// now is the server's time, ms.
func (s *stage) now() int {
	s.t.Helper()
	seconds, _, _ := strings.Cut(s.do("TIME"), " ")
	return 1000 * kit.Number(seconds)
}

// A release that finds more dead ones than it may drop grants the lock to nobody behind them, but has one ask who drops more.
func TestFairBehindManyDead(t *testing.T) {
	everywhere(t, "fair", 0, func(s *stage) {
		s.step("holder tries", "done")
		for i := range 250 {
			s.do("RPUSH", s.keys["LINE"], fmt.Sprintf("ffffffff-0000-8000-8000-000000000000:%d", i))
		}
		s.play(`
			first asks a          | refused 250
			second asks b         | refused 251
			holder releases       | done        | -
		`)
		if heard := s.heard(); heard != "first:a+0" && heard != "second:b+0" {
			s.t.Errorf("heard %q", heard)
		}
		s.wrong("release", "so many stand in line:", s.do("LLEN", s.keys["LINE"]), "52")
		s.play(`
			second asks b         | refused 1   | -
			first asks a          | done        | first 30s | second
		`)
	})
}

// A clock that is set back makes nobody live for longer, and drops nobody.
func TestFairClockSetBack(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := newStage(t, "fair", "x", 0, w.Server.Driver(), w.Do)
		s.step("holder tries", "done")
		var line []string
		for i := range 200 {
			line = append(line, fmt.Sprint("a", i))
			s.step(line[i]+" asks n", fmt.Sprint("refused ", i))
		}
		time.Sleep(time.Second)
		w.Server.SetClock(-time.Hour)
		s.step("holder vanishes")
		s.step("a199 asks n", "refused 199", "-", strings.Join(line, " "))
		for range 2 {
			time.Sleep(2400 * time.Millisecond)
			s.step("a199 asks n", "refused 199")
		}
		time.Sleep(2400 * time.Millisecond)
		s.step("a199 asks n", "done", "a199 30s") // three times 2.4 s at most, and not an hour
		w.Do("FLUSHALL")
	})
}

// Without rights to the asks there are no numbers, and all is as with those who do not listen.
func TestFairRights(t *testing.T) {
	t.Parallel()
	s := onServer(t, redistest.Start(t), "fair", 0)
	s.driver = s.limited("+@all", "&*", "~NAME", "~redisson_lock_queue:{NAME}", "~redisson_lock_timeout:{NAME}", "~holdfast_lock_waiting:{NAME}")
	s.play(`
		holder tries              | done    | holder 30s | - |
		a asks n                  | refused | holder 30s | a |
		holder releases           | done    | -          | a | a:told
		a asks n                  | done    | a 30s      | - |
		a forced                  | done    | -          | - | a:told
		a leaves                  | refused | -          | - |
	`)
}
