package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Waiters of either side are killed while they stand in the line of a fair lock.
// Those behind them come in, in their order, whichever side they are of. A dead
// waiter of ours is believed for 10 s by ours, and for 30 s by Java's, who know its
// score only; a dead one of Java's for its own wait time, or, where one of ours has
// asked behind it, for 30 s.
func TestFairDying(t *testing.T) {
	t.Parallel() // it sleeps for most of its time
	for _, version := range Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := Config{Version: version, Mode: Single, Addresses: []string{s.Addr()}, FairWait: 2 * time.Second}
			w := &world{version: version, servers: &servers{config: c, nodes: []*redistest.Server{s}}}
			w.connect(t)
			java, golang := startBoth(t, c)
			w.java = java
			deadJava, deadGo := startBoth(t, c)
			var all []*line
			for _, order := range [][]*Peer{{deadGo, java}, {deadJava, golang}, {deadJava, java}, {deadGo, golang, java, deadJava, golang}} {
				all = append(all, stand(t, w, order, func(p *Peer) bool { return p == deadJava || p == deadGo }))
			}
			deadJava.Kill()
			deadGo.Kill()
			for _, l := range all {
				l.do(java, "H", "unlock", l.name)
			}
			start := time.Now()
			t.Run("lines", func(t *testing.T) { // ends before its peers do
				for _, l := range all {
					t.Run(l.title, func(t *testing.T) {
						t.Parallel()
						for i, living := range l.living {
							if _, err := within(2*patience+40*time.Second, living.wait); err != nil {
								t.Fatalf("number %d of those who live: %v", i, err)
							}
							l.do(living.peer, living.thread, "unlock", l.name)
						}
						t.Logf("through after %v", time.Since(start).Round(time.Millisecond))
						l.gone(l.name)
					})
				}
			})
		})
	}
}

// line is who waits for a fair lock that Java's thread H holds.
type line struct {
	*duel
	title, name string
	living      []living
}

// living is a waiter who is not going to be killed.
type living struct {
	peer   *Peer
	thread string
	wait   func() (string, error)
}

func stand(t *testing.T, w *world, order []*Peer, dies func(p *Peer) bool) *line {
	t.Helper()
	var title []string
	for _, p := range order {
		word := p.String()
		if dies(p) {
			word = "dead-" + word
		}
		title = append(title, word)
	}
	l := &line{duel: &duel{T: t, w: w, k: &kind{name: "fair", spell: itself}}, title: strings.Join(title, "-")}
	l.name, l.threads = l.duel.name(l.title), l.title
	l.do(w.java, "H", "lock", l.name)
	for i, p := range order {
		thread := fmt.Sprint("W", i)
		wait := l.ask(p, thread, "lock", "fair", l.name)
		l.inLine(l.name, i+1)
		if !dies(p) {
			l.living = append(l.living, living{p, thread, wait})
		}
	}
	return l
}
