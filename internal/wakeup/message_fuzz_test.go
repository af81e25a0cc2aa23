package wakeup

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// counted is a party that counts what it is told.
type counted struct{ notified, acquired int }

func (c *counted) Notify()         { c.notified++ }
func (c *counted) NotifyAcquired() { c.acquired++ }

// silent is a listener that does nothing: the test delivers.
type silent struct{ wanted map[string]bool }

func (l silent) Subscribe(channel string)   { l.wanted[channel] = true }
func (l silent) Unsubscribe(channel string) { delete(l.wanted, channel) }
func (silent) Close()                       {}

// FuzzMessages: whatever is published, those who listen to that channel are woken, once each, and
// nobody else. Only the payload that says that another has the lock does not wake.
func FuzzMessages(f *testing.F) {
	for _, seed := range []struct{ channel, payload string }{
		{"a", "0"}, {"a", "1"}, {"a", "-1"}, {"a", ""}, {"b", "0"}, {"a", "\x00"}, {"a", "99999999999999999999"}, {"", "0"}, {"a", " -1"}, {"a", "-1\n"},
	} {
		f.Add(seed.channel, seed.payload, byte(driver.Message), byte(3))
	}
	f.Add("a", "", byte(driver.Subscribed), byte(0))
	f.Add("a", "", byte(77), byte(5))
	f.Fuzz(func(t *testing.T, channel, payload string, kind, leave byte) {
		l := silent{map[string]bool{}}
		h := New(func(func(driver.Event)) driver.Listener { return l }, protocol.Acquired)
		parties := [3]counted{}
		first, second := h.Join("a", &parties[0]), h.Join("a", &parties[1])
		third := h.Join("b", &parties[2])
		subscriptions := []*Subscription{first, second, third}
		if int(leave) < len(subscriptions) {
			subscriptions[leave].Leave()
		}
		h.deliver(driver.Event{Kind: driver.EventKind(kind), Channel: channel, Payload: payload})
		for i, p := range parties {
			on := []string{"a", "a", "b"}[i]
			want := counted{}
			switch {
			case on != channel || int(leave) == i:
			case driver.EventKind(kind) == driver.Message && payload == protocol.Acquired:
				want.acquired = 1
			default:
				want.notified = 1
			}
			if p != want {
				t.Errorf("%q on %q, kind %d: party %d was told %+v, and not %+v", payload, channel, kind, i, p, want)
			}
		}
		for _, s := range subscriptions {
			s.Leave()
		}
		if len(l.wanted)+len(h.channels) > 0 {
			t.Errorf("%v, %v are left", l.wanted, h.channels)
		}
	})
}
