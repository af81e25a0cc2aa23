package scripts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// This file is about semaphores of several permits.

// Who is refused has the permits when they are given back: the first in line, as many as there is enough for, in one script. Each is
// told. It asks again, and has its full lease. The others are told what is left.
func TestPermitsRelease(t *testing.T) {
	everywhere(t, "semaphore", 4, func(s *stage) {
		s.play(`
			others listen
			a3 tries              | done      | a3 30s                 | -              |
			b tries               | done      | a3 30s b 30s           | -              |
			one asks 1            | refused 0 | a3 30s b 30s           | one            |
			two2 asks 2           | refused 1 | a3 30s b 30s           | one two2       |
			three asks 3          | refused 2 | a3 30s b 30s           | one two2 three |
			no turn
			b releases            | done      | a3 30s one 3s          | two2 three     | one:1
			a3 releases           | done      | one 3s two2 3s three 3s | -             | two2:2 three:3
			two2 asks 4           | done      | one 3s two2 30s three 3s | -            |
			one releases          | done      | two2 30s three 3s      | -              | others
			three releases        | done      | two2 30s               | -              | others
		`)
	})
}

// Who wants many is not overtaken: those behind it wait, and so does who comes later or only tries. After ten seconds others are let by
// for as long.
func TestPermitsOfMany(t *testing.T) {
	inMemory(t, "semaphore", 3, func(s *stage) {
		s.play(`
			a tries               | done
			b tries               | done
			c tries               | done
			m3 asks m             | refused 0 | a 30s b 30s c 30s      | m3   |
			o asks o              | refused 1 | a 30s b 30s c 30s      | m3 o |
			a releases            | done      | b 30s c 30s            | m3 o |
			x tries               | refused   | b 30s c 30s            | m3 o |
			m3 asks m             | refused 0 | b 30s c 30s            | m3 o |
			o asks o              | refused 1 | b 30s c 30s            | m3 o |
			x tries               | refused   | b 30s c 30s            | m3 o |
		`)
		for range 11 {
			s.play(`
				time 900ms
				m3 asks m         | refused 0
				o asks o          | refused 1
			`)
		}
		s.play(`
			time 100ms
			o asks o              | done      | b 20s c 20s o 30s      | m3   |
			b renews              | done      | b 30s c 20s o 30s      | m3   |
			c renews              | done      | b 30s c 30s o 30s      | m3   |
			m3 asks m             | refused 0 | b 30s c 30s o 30s      | m3   |
			l asks l              | refused 1 | b 30s c 30s o 30s      | m3 l |
			o releases            | done      | b 30s c 30s l 3s       | m3   | l:l
			l releases            | done      | b 30s c 30s            | m3   |
			b releases            | done      | c 30s                  | m3   |
			c releases            | done      | m3 3s                  | -    | m3:m
		`)
	})
}

// Each who wants many has ten seconds: one that has left does not use up those of the next.
func TestPermitsOfManyInTurns(t *testing.T) {
	inMemory(t, "semaphore", 3, func(s *stage) {
		s.play(`
			a tries               | done
			b tries               | done
			c tries               | done
			m3 asks m             | refused 0
			a releases            | done
			x tries               | refused   | b 30s c 30s | m3 |
			m3 leaves             | done      | b 30s c 30s | -  |
			n3 asks n             | refused 0 | b 30s c 30s | n3 |
		`)
		for range 4 {
			s.play(`
				time 2600ms
				n3 asks n         | refused 0
			`)
		}
		s.step("x tries", "refused", "b 19.6s c 19.6s", "n3", "")
	})
}

// Who wants more than there are keeps nobody waiting, and stays in line until there are as many.
func TestPermitsOfTooMany(t *testing.T) {
	everywhere(t, "semaphore", 2, func(s *stage) {
		s.play(`
			a tries               | done
			b tries               | done      | a 30s b 30s | -    |
			m3 asks m             | refused 0 | a 30s b 30s | m3   |
			o asks o              | refused 1 | a 30s b 30s | m3 o |
			a releases            | done      | b 30s o 3s  | m3   | o:o
			b releases            | done      | o 3s        | m3   |
			o releases            | done      | -           | m3   |
			b tries               | done      | b 30s       | m3   |
			permits add 1         | done      | b 30s       | m3   |
			b releases            | done      | m3 3s       | -    | m3:m
		`)
	})
}

// Who leaves is out of the line, and gives back just what it was granted, however late. What it was to have others have.
func TestPermitsLeave(t *testing.T) {
	everywhere(t, "semaphore", 2, func(s *stage) {
		s.play(`
			a tries               | done
			b tries               | done      | a 30s b 30s | -      |
			f2 asks f             | refused 0 | a 30s b 30s | f2     |
			s asks s              | refused 1 | a 30s b 30s | f2 s   |
			t asks t              | refused 2 | a 30s b 30s | f2 s t |
			a releases            | done      | b 30s       | f2 s t |
			f2 leaves             | done      | b 30s s 3s  | t      | s:s
			s leaves              | done      | b 30s t 3s  | -      | t:t
			s leaves              | refused   | b 30s t 3s  | -      |
			f2 leaves             | refused   | b 30s t 3s  | -      |
			t leaves              | done      | b 30s       | -      |
		`)
	})
}

// However permits become available, those in line have them: 64 at a time, and the first of the others is told to ask.
func TestPermitsServeMany(t *testing.T) {
	inMemory(t, "semaphore", 0, func(s *stage) {
		for i := range 70 {
			s.step(fmt.Sprintf("w%dx asks n", i), fmt.Sprint("refused ", i))
		}
		s.step("permits set 1", "done", "w0x 3s", "", "w0x:n")
		s.step("permits add 1", "done", "w0x 3s w1x 3s", "", "w1x:n")
		s.step("w0x forced", "done", "w1x 3s w2x 3s", "", "w2x:n")
		told := []string{"w67x:n+0"}
		for i := range 64 {
			told = append(told, fmt.Sprintf("w%dx:n", 3+i))
		}
		s.step("permits add 66", "done", "", "w67x w68x w69x", strings.Join(told, " "))
		s.wrong("64 are served", "available", s.do("GET", s.name), "2")
		s.step("w67x asks m", "done", "", "w69x", "w68x:n")
		s.wrong("all are served", "available", s.do("GET", s.name), "0")
		s.step("permits add -2", "done", "", "w69x", "")
		s.step("w1x releases", "done", "", "w69x", "")
		s.step("w2x releases", "done", "", "w69x", "")
		s.step("w3x releases", "done", "", "-", "w69x:n")
		s.wrong("fewer are served", "available", s.do("GET", s.name), "0")
	})
}

// When a permit expires, the first who asks has it, and those behind it have the others. The first know when that is, each a moment after
// the one before.
func TestPermitsExpire(t *testing.T) {
	inMemory(t, "semaphore", 3, func(s *stage) {
		s.play(`
			a tries 300ms         | done
			b tries 200ms         | done
			c tries 200ms         | done      | a 300ms b 200ms c 200ms
		`)
		for i := range 10 {
			again := time.Duration(200+i) * time.Millisecond
			if i >= 8 {
				again = time.Second
			}
			s.step(fmt.Sprintf("w%dx asks n", i), fmt.Sprint("refused ", i))
			s.step(fmt.Sprintf("w%dx asks n", i), fmt.Sprintf("refused %d in %v", i, again))
		}
		s.play(`
			time 200ms
			w2x asks m            | refused 0 | a 100ms w0x 3s w1x 3s    | w2x w3x w4x w5x w6x w7x w8x w9x | w0x:n w1x:n
			time 100ms
			w2x asks m            | done      | w0x 2.9s w1x 2.9s w2x 30s | w3x w4x w5x w6x w7x w8x w9x    |
			time 2800ms
			w4x asks k            | refused 1
			w3x asks k            | refused 0
			time 100ms
			w3x asks m            | done      | w2x 27.1s w3x 30s w4x 3s |                                 | w4x:k
		`)
	})
}

// A semaphore takes its permits with it. It may end before what is granted of it; who is granted it has to know when: it asks.
func TestPermitsEnd(t *testing.T) {
	everywhere(t, "semaphore", 2, func(s *stage) {
		wantLives := func(least, most time.Duration) {
			s.t.Helper()
			if lives := s.pttl(s.keys["HELD"]); lives < least || lives > most {
				s.t.Errorf("the permits live for %v", lives)
			}
		}
		for _, who := range []string{"one", "two2"} {
			s.step("redis PEXPIRE LOCK 60000")
			s.step(who+" tries", "done", who+" 30s")
			wantLives(50*time.Second, time.Minute)
			s.step(who+" releases", "done", "-")
		}
		s.play(`
			a2 tries              | done
			w2 asks n             | refused 0
			redis PEXPIRE LOCK 2000
			redis PERSIST HELD
			a2 releases           | done      | w2 3s | - | w2:n+0
		`)
		wantLives(0, 2*time.Second)
		w := s.actor("w2")
		if lives := w.lock.Lifetime(s.send(w, s.request("w2", "asks", []string{"m"}))); lives > 2*time.Second {
			s.t.Errorf("w2 has it for %v", lives)
		}
	})
}

// Nobody is granted permits who does not listen, or has not asked for long. They are dropped.
func TestPermitsDropTheDead(t *testing.T) {
	inMemory(t, "semaphore", 2, func(s *stage) {
		s.play(`
			a tries               | done
			b tries               | done
			deaf2 asks d          | refused 0
			silent asks s         | refused 1
			alive asks a          | refused 2 | a 30s b 30s     | deaf2 silent alive |
			time 3s
			deaf2 asks d          | refused 0
			alive asks a          | refused 2
			time 1ms
			a releases            | done      | alive 3s b 27s  | -                  | alive:a
		`)
	})
}

// While others listen, one permit is left to them from time to time, and no more than one. They have had it if none is available.
func TestPermitsLeaveOne(t *testing.T) {
	const ms = time.Millisecond
	inMemory(t, "semaphore", 3, func(s *stage) {
		s.play(`
			others listen
			a3 tries              | done
			one asks 1            | refused 0
			two asks 2            | refused 1
			three asks 3          | refused 2 | a3 30s        | one two three |
			a3 releases           | done      | one 3s two 3s | three         | one:1 two:2 three:3+1 others
		`)
		s.wantTurn(ms, 3*ms, 3*ms)
		s.play(`
			three asks 4          | refused 0 in 2ms
			new comes             | refused   | one 3s two 3s | three         |
			time 3ms
			three asks 5          | done      |               | -             |
			time 20ms
			last asks 6           | refused 0
			one releases          | done      |               | last          | last:6+1 others
		`)
		s.wantTurn(3*ms, 3*ms, 3*ms)
		s.do("ZADD", s.keys["HELD"], "9e13", "theirs\x4f--------9") // one of Redisson's takes it
		s.do("DECR", s.name)
		s.step("last asks 7", "refused 0 listens")
		s.wantTurn(0, 0, 3*time.Millisecond)
	})
	inMemory(t, "semaphore", 2, func(s *stage) { // a waiter behind one that has the other permit leaves it to them, too
		s.play(`
			others listen
			a tries               | done
			b tries               | done
			one asks 1            | refused 0
			two asks 2            | refused 1
			turn 20ms
			a vanishes
			b vanishes
			two asks 3            | refused 0 in 10ms | one 3s | two | one:1
		`)
	})
}

// A release opens no yield window while no permit is available: there are fewer now.
func TestPermitsLeaveNoneToOthers(t *testing.T) {
	inMemory(t, "semaphore", 2, func(s *stage) {
		s.play(`
			others listen
			a tries               | done
			b tries               | done
			permits set 1
			a releases            | done      | b 30s       | -             | others
		`)
		s.wrong("a releases", "turn", s.do("EXISTS", s.keys["TURN"]), "0")
		s.step("b releases", "done", "-", "-", "others")
		s.wantTurn(1*time.Millisecond, 3*time.Millisecond, 3*time.Millisecond)
	})
}

// A permit is left to others although Redisson holds another one: that is not the one that was left to it.
func TestPermitsLeaveOneBesideRedissons(t *testing.T) {
	const ms = time.Millisecond
	inMemory(t, "semaphore", 2, func(s *stage) {
		s.do("ZADD", s.keys["HELD"], "9e13", "theirs\x4f--------9")
		s.do("DECR", s.name)
		s.play(`
			others listen
			a tries               | done
			w asks 1              | refused 0 listens
			turn 20ms
			a vanishes
			w asks 2              | refused 0 listens in 10ms
		`)
		s.wantTurn(5*ms, 20*ms)
	})
}

// What is left to others is not kept for them when none of them listens any more.
func TestPermitsLeaveNothingToNobody(t *testing.T) {
	inMemory(t, "semaphore", 1, func(s *stage) {
		s.play(`
			a tries               | done
			w asks n              | refused 0
			a vanishes
			turn 20ms
			w asks m              | done      | w 30s | - |
		`)
	})
}

// Who stands in line hears that Redisson has some of the permits, and where to listen for them.
func TestPermitsOfRedissons(t *testing.T) {
	everywhere(t, "semaphore", 2, func(s *stage) {
		held := s.keys["HELD"]
		s.step("a2 tries", "done")
		s.step("w asks n", "refused 0")
		for i := range 200 { // neither the first nor the last to expire
			s.do("ZADD", held, fmt.Sprint(1e14+float64(i)), fmt.Sprintf("ours--\x8f-h%07d", i))
		}
		s.step("w asks n", "refused 0")
		s.do("ZADD", held, "9e13", "theirs\x8f--------1") // it expires early
		s.step("w asks n", "refused 0 listens")
		s.do("ZREM", held, "theirs\x8f--------1")
		s.step("w asks n", "refused 0")
		s.do("ZADD", held, "922337203685477", "theirs\x90-h------2") // it never expires
		s.step("w asks n", "refused 0 listens")
	})
}

// Without rights to the line there is none, and permits are had as without it; a holder without them tells the others.
func TestPermitsRights(t *testing.T) {
	t.Parallel()
	s := onServer(t, redistest.Start(t), "semaphore", 2)
	limited := s.limited("+@all", "~NAME", "~{NAME}:timeout", "~holdfast_calls:{NAME}", "&*")
	for _, name := range []string{"a2", "w", "operator"} {
		s.actor(name).driver = limited
	}
	s.play(`
		others listen
		a2 tries                  | done      | a2 30s    | - |
		w asks n                  | refused   | a2 30s    | - |
		i asks i                  | refused 0 | a2 30s    | i |
		a2 releases               | done      | -         | i | others
		w leaves                  | refused   | -         | i |
		other2 tries              | refused   | i 3s      | - | i:i
		operator inspects         | done
		permits set 3             | done      | i 3s      | - | others
		w tries                   | done      | i 3s w 30s | - |
		w releases                | done      | i 3s      | - | others
	`)
}

// Nothing is reserved for an unlisted waiter: it gets what the waitlist leaves, and in a yield window what is available then.
func TestPermitsOutside(t *testing.T) {
	inMemory(t, "semaphore", 3, func(s *stage) {
		s.play(`
			others listen
			a3 tries              | done
			outside2 waits        | refused   | a3 30s            | -    |
			m3 asks m             | refused 0 | a3 30s            | m3   |
			in asks n             | refused 1 | a3 30s            | m3 in |
			no turn
			a3 releases           | done      | m3 3s             | in   | m3:m
			outside2 waits        | refused   | m3 3s             | in   |
			m3 releases           | done      | in 3s             | -    | in:n others
			outside2 waits        | done      | in 3s outside2 30s | -   |
			m3 asks k             | refused 0 | in 3s outside2 30s | m3  |
			redis DEL TURN
			outside2 releases     | done      | in 3s             | m3   | m3:k+1 others
			one waits             | done      | in 3s one 30s     | m3   |
			x tries               | refused   | in 3s one 30s     | m3   |
		`)
		s.wantTurn(0, 0, 3*time.Millisecond)
	})
}

// A semaphore that was deleted while permits were held, and is made anew, has as many as it was given: those that are held still count.
func TestPermitsMadeAnew(t *testing.T) {
	inMemory(t, "semaphore", 3, func(s *stage) {
		s.play(`
			a2 tries              | done      | a2 30s
			redis DEL LOCK
			permits made 3        | done      | a2 30s
			a2 releases           | done      | -
		`)
	})
}

// A waiter that gets what it waits for by another call, which has no request ID or is an early one that comes late, is not granted it once
// more, even if that call could not remove the entry.
func TestPermitsAreGrantedOnce(t *testing.T) {
	inMemory(t, "semaphore", 2, func(s *stage) {
		s.play(`
			others listen
			a tries               | done
			b tries               | done
			w asks n              | refused 0 | a 30s b 30s | w |
			turn 20ms
			a vanishes
			w waits               | done      | b 30s w 30s | - |
			w releases            | done      | b 30s       | - | others
			no turn
			a tries               | done
			x asks m              | refused 0 | a 30s b 30s | x |
			a vanishes
			x tries 1s            | done      | b 30s x 1s  | - |
			b releases            | done      | x 1s        | - | others
			x releases            | done      | -           | - | others
		`)
		s.play(`
			a tries               | done
			b tries               | done
			x asks m              | refused 0 | a 30s b 30s | x |
			a vanishes
			redis DECR LOCK
		`)
		s.do("ZADD", s.keys["HELD"], fmt.Sprint(time.Now().Add(time.Second).UnixMilli()), s.actor("x").ids[0])
		s.play(`
			b releases            | done      | x 1s        | - | others
			x asks k              | done      | x 30s       | - |
		`)
	})
}
