package scripts

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// This file is about plain locks, and what fair locks and semaphores of one permit do as they do.

// Who is refused stands in line, where it keeps its place. Its last ask replaces the one before. No grant is longer than the lease.
func TestStand(t *testing.T) {
	everywhere(t, "lock fair semaphore", 1, func(s *stage) {
		s.play(`
			holder tries              | done      | holder 30s | -     |
			b asks b1                 | refused 0 | holder 30s | b     |
			a asks a1 1s scattered    | refused 1 | holder 30s | b a   |
			b asks b2                 | refused 0 | holder 30s | b a   |
			c asks c1 token           | refused 2 | holder 30s | b a c |
			c inspects                | done      | holder 30s | b a c |
		`)
		for _, key := range []string{s.keys["LINE"], s.keys["ASKS"]} {
			if lives := s.pttl(key); lives > 2*time.Minute || lives < 110*time.Second {
				s.t.Errorf("%s lives for %v", key, lives)
			}
		}
	})
}

// A release grants to the first, by the number of its last ask, for as long as it wants. The last one is told to all.
func TestRelease(t *testing.T) {
	everywhere(t, "lock fair semaphore", 1, func(s *stage) {
		s.play(`
			others listen
			no turn
			holder tries          | done      | holder 30s | -          |
			first asks f1         | refused 0 | holder 30s | first      |
			last asks l1 900ms    | refused 1 | holder 30s | first last |
			first asks f2         | refused 0 | holder 30s | first last |
			holder releases       | done      | first 3s   | last       | first:f2
			holder releases       | refused   | first 3s   | last       |
			first asks m          | done      | first 30s  | last       |
			first asks k 1s       | done      | first 30s  | last       |
			first releases        | done      | last 900ms | -          | last:l1
			last releases         | done      | -          | -          | others
		`)
	})
}

// Who leaves is out of the line, and gives back what it was granted, to the next one. So does one that finds the lock free: it may have
// been told.
func TestLeave(t *testing.T) {
	everywhere(t, "lock fair semaphore", 1, func(s *stage) {
		s.play(`
			others listen
			no turn
			holder tries          | done      | holder 30s | -     |
			a asks n0             | refused 0 | holder 30s | a     |
			b asks n1             | refused 1 | holder 30s | a b   |
			c asks n2             | refused 2 | holder 30s | a b c |
			c leaves              | done      | holder 30s | a b   |
			c leaves              | refused   | holder 30s | a b   |
			stranger leaves       | refused   | holder 30s | a b   |
			holder releases       | done      | a 3s       | b     | a:n0
			a leaves              | done      | b 3s       | -     | b:n1
			a leaves              | refused   | b 3s       | -     |
			b leaves              | done      | -          | -     | others
			no turn
			holder tries          | done      | holder 30s | -     |
			a asks a              | refused 0 | holder 30s | a     |
			b asks b              | refused 1 | holder 30s | a b   |
			holder vanishes
			a leaves              | done      | b 3s       | -     | b:b
		`)
		if s.kind != "semaphore" { // a hold with another one nested in it was not just granted
			s.play(`
				b nests           | done      | b*2 30s    | -     |
				b leaves          | refused   | b*2 30s    | -     |
			`)
		}
	})
}

// What is taken away is the next one's. What is kept from others is not; but the first of the line is told to ask, and sees until when.
func TestForceAndRetain(t *testing.T) {
	told := map[string]string{"lock": "others", "fair": "holder:told", "semaphore": ""} // who else hears of force
	everywhere(t, "lock fair semaphore", 1, func(s *stage) {
		seen := "first,holder"
		if s.kind == "fair" { // whoever inspects it sees one holder at most
			seen = "holder"
		}
		s.play(`
			others listen
			no turn
			holder tries          | done      | holder 30s | -            |
			first asks a          | refused 0 | holder 30s | first        |
			second asks b         | refused 1 | holder 30s | first second |
			first forced          | refused   | holder 30s | first second |
			` + seen + ` forced   | done      | first 3s   | second       | first:a ` + told[s.kind])
		if s.kind != "semaphore" {
			s.play(`
				first retains 5s  | done      | nobody 5s  | second       | second:b+0 others
			`)
		}
	})
}

// The first eight ask often, the others so that all together ask some hundred times a second. Each is believed for three times as long.
// The dead are not counted.
func TestHints(t *testing.T) {
	inMemory(t, "lock fair semaphore", 1, func(s *stage) { // a real server may take so long for all that the first are dead
		ask := func(name string, want time.Duration) {
			a := s.actor(name)
			time.Sleep(2 * time.Microsecond) // or its name would say who comes first
			for i := range 2 {
				again := protocol.ReadRefusal(s.send(a, s.request(name, "asks", []string{"n"}))).Retry - time.Millisecond
				if again > want || i > 0 && again != want { // whoever comes asks at any time until then
					s.t.Errorf("%s asks after %v, want %v", name, again, want)
				}
			}
			until := fmt.Sprint(time.Now().Add(3 * want).UnixMilli())
			s.wrong(name, "is believed until", strings.Fields(s.do("HGET", s.keys["ASKS"], a.owner))[2], until)
		}
		often := time.Second
		if s.kind == "fair" {
			often = 1500 * time.Millisecond
		}
		s.step("holder tries", "done")
		for i := range 400 {
			want := often
			if i >= 8 {
				want = max(often, time.Duration(i+1)*12*time.Millisecond)
			}
			ask(fmt.Sprintf("a%dx", i), want)
		}
		ask("a7x", often)
		if s.kind == "fair" {
			for owner := range strings.FieldsSeq(s.do("LRANGE", s.keys["LINE"], "0", "390")) {
				s.do("ZADD", protocol.FairHeartbeatsKey(s.name), "1", owner)
			}
			ask("last", often)
		}
	})
}

// The first of a plain lock's line ask when its key ends, each a moment after the one before.
func TestLineHintsOfTheFirst(t *testing.T) {
	inMemory(t, "lock", 0, func(s *stage) {
		s.play(`
			holder tries 601ms    | done
			a asks n              | refused 0 in 600ms
			b asks n              | refused 1 in 650ms
		`)
	})
}

// Who does not listen is dropped: so many at most, then the lock is free.
func TestLineDropsTheDeaf(t *testing.T) {
	inMemory(t, "lock", 0, func(s *stage) { // a real server may take so long for all that they have not asked for too long
		row := func(deaf int) {
			for i := range deaf {
				s.step(fmt.Sprintf("deaf%d asks n", i), fmt.Sprint("refused ", i))
			}
			s.step("last asks n", fmt.Sprint("refused ", deaf))
		}
		s.play(`
			others listen
			no turn
			holder tries          | done
		`)
		row(63)
		s.play(`
			holder releases       | done      | last 3s    | -    | last:n
			last releases         | done      | -          | -    | others
			holder tries          | done
		`)
		row(64)
		s.play(`
			holder releases       | done      | -          | last | last:n+0 others
			last leaves           | done      | -          | -    | others
			holder tries          | done
		`)
		// Who takes a free lock past more of them than are dropped at once does not stand in line any more.
		row(72)
		s.step("holder vanishes")
		s.step("last asks m", "done", "last 30s", "deaf64 deaf65 deaf66 deaf67 deaf68 deaf69 deaf70 deaf71")
	})
}

// Who has not asked for too long is dropped, though its client listens.
func TestLineDropsTheSilent(t *testing.T) {
	inMemory(t, "lock semaphore", 1, func(s *stage) {
		s.play(`
			holder tries          | done      | holder 30s | - |
			a asks n              | refused 0 | holder 30s | a |
			time 3s
			holder releases       | done      | a 3s       | - | a:n
			a releases            | done      | -          | - |
			holder tries          | done      | holder 30s | - |
			a asks n              | refused 0 | holder 30s | a |
			time 3001ms
			holder releases       | done      | -          | - |
		`)
	})
}

// Whose client may listen at any node is believed to hear while it asks.
func TestLineScattered(t *testing.T) {
	inMemory(t, "lock", 0, func(s *stage) {
		s.play(`
			holder tries              | done
			deaf1 asks n scattered    | refused 0
			holder releases           | done      | deaf1 3s | -     |
			deaf2 asks n scattered    | refused 0 | deaf1 3s | deaf2 |
			redis PEXPIRE LOCK 10000
			time 3001ms
			deaf1 releases            | done      | -        | -     |
		`)
	})
}

// Who finds the lock free takes it if it is the first of those who hear, and else grants it to that one.
func TestLineOfAFreeLock(t *testing.T) {
	everywhere(t, "lock semaphore", 1, func(s *stage) {
		for _, row := range []string{
			"first asks again  | done      | first 30s | second       |",
			"second asks again | refused 0 | first 3s  | second       | first:n1",
			"third asks again  | refused 1 | first 3s  | second third | first:n1",
			"stranger tries    | refused   | first 3s  | second       | first:n1",
		} {
			s.play(`
				holder tries      | done      | holder 30s | -
				deaf asks n0      | refused 0 | holder 30s | deaf
				first asks n1     | refused 1 | holder 30s | deaf first
				second asks n2    | refused 2 | holder 30s | deaf first second |
				holder vanishes
			`)
			s.play(row)
			s.play(`
				redis DEL LINE ASKS
				first vanishes
			`)
		}
		for _, row := range []string{"stranger tries", "stranger asks n"} { // the deaf keep nobody out
			s.play(`
				holder tries      | done      | holder 30s | -
				deaf1 asks n      | refused 0
				deaf asks n       | refused 1
				holder vanishes
			`)
			s.step(row, "done", "stranger 30s", "-")
			s.step("stranger vanishes")
		}
	})
}

// While somebody listens who does not stand in line, the lock is left to it from time to time: more seldom, and for longer, while
// nobody takes it.
func TestLineOpenRelease(t *testing.T) {
	const ms = time.Millisecond
	inMemory(t, "lock", 0, func(s *stage) {
		turn := 0
		names := func() (holder, next, last string) {
			return fmt.Sprint("a", turn%3), fmt.Sprint("a", (turn+1)%3), fmt.Sprint("a", (turn+2)%3)
		}
		// release has the holder release, while the two others stand in line.
		release := func(holds, heard string) {
			s.t.Helper()
			holder, next, last := names()
			s.step(next+" asks n", "refused 0")
			s.step(last+" asks n", "refused 1")
			line := last
			if holds == "-" {
				line = next + " " + last
			}
			s.step(holder+" releases", "done", holds, line, heard)
			turn++
		}
		open := func(pause, left time.Duration) (next string) {
			s.t.Helper()
			_, next, _ = names()
			release("-", next+":n+1 others") // after so many ms it asks
			s.wantTurn(pause, left, left)
			return next
		}
		s.play(`
			others listen
			a0 tries | done
		`)
		before := time.Duration(0)
		for _, n := range []int{1, 3, 7, 15, 31, 63, 127, 255, 511, 1000, 1000} {
			pause := time.Duration(n) * ms
			left := min(3*ms+(before/4).Truncate(ms), 32*ms)
			next := open(pause, left)
			before = pause
			s.step(next+" asks early", fmt.Sprint("refused 0 in ", ((left+ms)/2).Truncate(ms)))
			time.Sleep(left - ms)
			s.step(next+" asks early", "refused 0", "-")
			time.Sleep(ms)
			s.step(next+" asks now", "done") // nobody has taken it

			time.Sleep(pause - ms)
			_, next, _ = names()
			release(next+" 3s", next+":n") // before it is due
			s.step(next+" asks kept", "done")
			time.Sleep(31 * ms) // then it is their turn in any case
		}

		// One of Redisson's takes it: the next open release is early again, and as long.
		next := open(1000*ms, 32*ms)
		s.play(`
			redis HSET LOCK @java 1
			redis PEXPIRE LOCK 30000
		`)
		s.step(next+" asks n", "refused 0 listens", "java 30s")
		s.wantTurn(0, 0, 32*ms)
		s.step("java forced", "done", next+" 3s", "", next+":n others") // a release, as Redisson's is not

		// So may one of ours who does not stand in line.
		time.Sleep(30 * ms)
		open(ms, 32*ms)
		s.step("stranger comes", "refused") // it is going to stand in line
		s.step("outside waits", "done", "outside 30s")
		s.wantTurn(0, 0, 32*ms)
	})
}

// The lock is left to nobody but somebody who listens, and is not the holder.
func TestLineNoOpenRelease(t *testing.T) {
	everywhere(t, "lock", 0, func(s *stage) {
		s.play(`
			a tries               | done      | a 30s | - |
			b asks n              | refused 0 | a 30s | b |
			a releases            | done      | b 3s  | - | b:n
			others listen
			a asks m              | refused 0 | b 3s  | a |
			b releases listening  | done      | a 3s  | - | a:m
			b asks k              | refused 0 | a 3s  | b |
			a releases            | done      | -     | b | b:k+1 others
		`)
	})
}

// Somebody has written something else where the line is: then there is none, and locking is as without it.
func TestLineOverwritten(t *testing.T) {
	for keys, leaves := range map[string]string{
		"LINE": "refused", "LINE ASKS": "refused",
		"ASKS": "done", // where nobody could be told, nobody stands
	} {
		t.Run(keys, func(t *testing.T) {
			everywhere(t, "lock", 0, func(s *stage) {
				for key := range strings.FieldsSeq(keys) {
					s.step("redis SET " + key + " else")
				}
				s.play(`
					holder tries      | done    | holder 30s
					a asks n          | refused | holder 30s
					a inspects        | done
					a asks n          | refused | holder 30s
					holder releases   | done    | -
					a asks n          | done    | a 30s
					b asks n          | refused | a 30s
					a leaves          | done    | -
					a tries           | done    | a 30s
					b asks n          | refused | a 30s
					a forced          | done    | -
					a tries           | done    | a 30s
					a retains 1s      | done    | nobody 1s
					b asks n          | refused | nobody 1s
					holder vanishes
					holder tries      | done    | holder 30s
					a asks n          | refused
					a leaves          | ` + leaves + `
					others listen
					a asks n          | refused
					holder releases   | done    | -         | | others
				`)
			})
		})
	}
}

// Without rights to the line there is none. Without the right to ask who listens, all are believed to.
func TestLineRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	t.Run("keys", func(t *testing.T) {
		s := onServer(t, server, "lock", 0)
		s.driver = s.limited("+@all", "~NAME", "&*")
		s.play(`
			holder tries          | done    | holder 30s
			a asks n              | refused | holder 30s | -
			a leaves              | refused | holder 30s
			holder releases       | done    | -          | - |
			a asks n              | done    | a 30s
			a inspects            | done
			a forced              | done    | -
			a asks n              | done    | a 30s
			a retains 1s          | done    | nobody 1s  | - |
		`)
	})
	t.Run("keys of the holder alone", func(t *testing.T) {
		s := onServer(t, server, "lock", 0)
		s.actor("holder").driver = s.limited("+@all", "~NAME", "&*")
		s.play(`
			holder tries          | done      | holder 30s | -            |
			first asks n          | refused 0 | holder 30s | first        |
			second asks m         | refused 1 | holder 30s | first second |
			holder releases       | done      | -          | first second |
			second asks m         | refused 0 | first 3s   | second       | first:n
		`)
	})
	t.Run("the command that counts listeners", func(t *testing.T) {
		s := onServer(t, server, "lock", 0)
		s.actor("holder").driver = s.limited("+@all", "-pubsub", "~*", "&*")
		s.play(`
			holder tries          | done      | holder 30s
			deaf asks n           | refused 0 | holder 30s
			holder releases       | done      | deaf 3s    | - |
		`)
	})
}

// Without the right to publish, whoever is granted the lock finds out by asking. Who has released it is told so.
func TestRightToPublish(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for lacking, rules := range kit.NotPublishing(t, server) {
		for _, kind := range []string{"lock", "fair", "semaphore"} {
			t.Run(kind+", "+lacking, func(t *testing.T) {
				s := onServer(t, server, kind, 1)
				s.driver = s.limited(rules...)
				s.play(`
					holder tries      | done        | holder 30s | -     |
					first asks n      | refused 0   | holder 30s | first |
					holder releases   | done untold | first 3s   | -     |
					first asks m      | done        | first 30s  | -     |
				`)
			})
		}
	}
}

// Messages that belong to a shard are those of one lock, and all who listen are known.
func TestSharded(t *testing.T) {
	t.Parallel()
	if !redistest.AtLeast(t, 7, 0) {
		return // it has none
	}
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { kit.OK(t, rdb.Close()) }()
	for kind, story := range map[string]string{
		"lock": `
			holder tries                  | done      | holder 30s
			deaf asks n scattered         | refused 0 | holder 30s
			hears asks n scattered        | refused 1 | holder 30s | deaf hears
			holder releases               | done      | hears 3s   | -
		`,
		"fair": `
			holder tries                  | done      | holder 30s
			hears asks n                  | refused 0 | holder 30s | hears
			holder releases               | done      | hears 3s   | -
		`,
	} {
		t.Run(kind, func(t *testing.T) {
			s := onServer(t, server, kind, 0)
			s.listen(s.grants(s.actor("deaf"))) // in vain
			s.publish = "SPUBLISH"
			hears := s.actor("hears")
			channel := s.grants(hears)
			s.wrong("hears", "listens on", channel, protocol.WaitlistKey(s.name)+":"+strings.TrimSuffix(hears.owner, ":257"))
			ctx, cancel := context.WithTimeout(background, 10*time.Second)
			defer cancel()
			sub := rdb.SSubscribe(ctx, channel)
			defer func() { kit.OK(t, sub.Close()) }()
			_, err := sub.Receive(ctx)
			kit.OK(t, err)
			s.play(story)
			if m, err := sub.ReceiveMessage(ctx); err != nil || spoken(m.Payload) != "n" {
				t.Errorf("%v, %v", m, err)
			}
		})
	}
}

// wantTurn checks until when from now on the lock is left to others, and how long after that the next time is.
func (s *stage) wantTurn(pause, left time.Duration, length ...time.Duration) {
	s.t.Helper()
	want := fmt.Sprintf("%d %d", pause.Milliseconds(), time.Now().Add(left).UnixMilli())
	for _, l := range length {
		want += fmt.Sprint(" ", l.Milliseconds())
	}
	s.wrong("now", "turn", s.do("GET", s.keys["TURN"]), want)
}
