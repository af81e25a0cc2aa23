package watchdog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/mono"
)

// TestAgainstAModel draws calls and answers from a seed: renewals are lost, have their effect late, or are answered late. No entry is
// trusted for longer than its key lives, none is past its deadline without having been lost, and each is looked at when it is due.
func TestAgainstAModel(t *testing.T) {
	for seed := range uint64(300) {
		faketime.Test(t, func(t *testing.T) { compare(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// compare compares a watchdog with the model for one seed.
func compare(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	var rm sync.Mutex
	rnd := func(n int) int { rm.Lock(); defer rm.Unlock(); return r.IntN(n) }
	var mu sync.Mutex
	key := map[int]time.Time{} // until when the key of each entry lives
	var d *watchdog
	start := time.Now()
	apply := func(batch []Renewal[held]) (a []Answer) {
		mu.Lock()
		defer mu.Unlock()
		for _, b := range batch {
			g := b.Entry.Value.group
			if key[g].After(time.Now()) {
				if x := time.Now().Add(b.TTL); x.After(key[g]) {
					key[g] = x
				}
				a = append(a, Held)
			} else {
				a = append(a, Gone)
			}
		}
		return a
	}
	d = New(Config[held, int]{
		Group:  func(w held) int { return w.group % 3 },
		Weight: func(held) int { return 1 },
		Renew: func(ctx context.Context, in Budget, _ int, batch []Renewal[held]) []Answer {
			sent := d.now()
			unknown := make([]Answer, len(batch))
			switch rnd(4) {
			case 0: // lost request
				time.Sleep(in.Patience)
				return unknown
			case 1: // effect in time, reply late
				time.Sleep(time.Duration(rnd(int(in.Patience))))
				a := apply(batch)
				go func() {
					time.Sleep(time.Duration(rnd(int(10 * time.Second))))
					d.AnsweredLate(batch, sent, a)
				}()
				time.Sleep(in.Patience / 2)
				return unknown
			case 2: // effect late
				go func() {
					time.Sleep(time.Duration(rnd(int(max(in.Left, 1)))))
					a := apply(batch)
					time.Sleep(time.Duration(rnd(int(2 * time.Second))))
					d.AnsweredLate(batch, sent, a)
				}()
				time.Sleep(in.Patience)
				return unknown
			}
			a := apply(batch)
			time.Sleep(time.Duration(rnd(int(in.Patience))))
			return a
		},
		Lost:     func(*Entry[held], Reason) {},
		LongHeld: func(*Entry[held]) {}, LongHeldAfter: time.Second, Timeout: 2 * time.Second,
	})
	type ent struct {
		*Entry[held]
		id int
	}
	var all []*ent
	check := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		now := d.now()
		for _, e := range all {
			if e.state != watched {
				continue
			}
			mu.Lock()
			k := key[e.id]
			mu.Unlock()
			if now < e.deadline && d.heap[e.index] != e.Entry {
				t.Error("heap")
			}
			if now < e.deadline && e.deadline > mono.Of(start).Add(k.Sub(start)) {
				t.Errorf("entry %d is trusted until %v after its key", e.id, e.deadline.Sub(mono.Of(start).Add(k.Sub(start))))
			}
			if late := now.Sub(e.deadline); late > time.Millisecond {
				t.Errorf("entry %d is %v past its deadline; lookAt %v", e.id, late, d.lookAt.Sub(now))
			}
			if late := now.Sub(e.next()); !e.inFlight && e.next() != 0 && late > time.Millisecond {
				t.Errorf("entry %d is not looked at %v after it is due", e.id, late)
			}
			if e.next() == 0 {
				t.Errorf("entry %d: a check is not sent", e.id)
			}
		}
	}
	for i := range 200 {
		n := rnd(10)
		var e *ent
		if len(all) > 0 {
			e = all[rnd(len(all))]
		}
		switch {
		case n < 3 || e == nil:
			lease := time.Duration(1+rnd(20000)) * time.Millisecond
			ttl := lease
			if rnd(2) == 0 {
				ttl = time.Duration(1+rnd(3000)) * time.Millisecond
			}
			ttl = min(ttl, lease)
			e := &ent{Entry: &Entry[held]{Value: held{fmt.Sprint(i), i}, Lease: lease}, id: i}
			if rnd(4) == 0 {
				e.RecheckEvery = time.Duration(1+rnd(3000)) * time.Millisecond
			}
			if rnd(4) == 0 {
				e.Until = d.now().Add(time.Duration(rnd(int(20 * time.Second))))
			}
			sent := d.now().Add(-time.Duration(rnd(int(100 * time.Millisecond))))
			mu.Lock()
			key[i] = time.Now().Add(ttl)
			mu.Unlock()
			d.Watch(e.Entry, sent, ttl, rnd(3) > 0)
			all = append(all, e)
		case n < 5:
			d.Remove(e.Entry)
		case n == 5:
			d.SetLease(e.Entry, time.Duration(1+rnd(20000))*time.Millisecond)
		case n == 6:
			d.SetRenewing(e.Entry, rnd(2) == 0)
		case n == 7:
			d.Check(e.Entry)
		case n == 8:
			b := []Renewal[held]{{Entry: e.Entry, TTL: time.Duration(rnd(20000)) * time.Millisecond}}
			sent := d.now()
			if a := apply(b); a[0] == Held {
				d.Acknowledge(e.Entry, sent, b[0].TTL)
			}
		case n == 9 && rnd(2) == 0:
			d.SetUntil(e.Entry, d.now().Add(time.Duration(rnd(int(20*time.Second)))))
		}
		if rnd(3) > 0 {
			time.Sleep(time.Duration(rnd(int(60 * time.Millisecond))))
		}
		if rnd(10) == 0 {
			time.Sleep(time.Duration(rnd(int(3 * time.Second))))
		}
		synctest.Wait()
		check()
		if t.Failed() {
			break
		}
	}
	d.Stop()
	time.Sleep(time.Minute)
}
