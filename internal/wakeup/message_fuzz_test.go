package wakeup

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// heard is a party that notes what it hears.
type heard struct{ payloads []string }

func (h *heard) Hear(payload string) { h.payloads = append(h.payloads, payload) }

// silent is a listener that does nothing: the test delivers.
type silent struct{ wanted map[string]bool }

func (l silent) Subscribe(channel string)   { l.wanted[channel] = true }
func (l silent) Unsubscribe(channel string) { delete(l.wanted, channel) }
func (silent) Close()                       {}

// FuzzMessages: whatever is published, those who listen to that channel hear it, once each, and
// nobody else. A subscription says nothing.
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
		h := New(func(func(driver.Event)) driver.Listener { return l })
		parties := [3]heard{}
		first, second := h.Join("a", &parties[0]), h.Join("a", &parties[1])
		third := h.Join("b", &parties[2])
		subscriptions := []*Subscription{first, second, third}
		if int(leave) < len(subscriptions) {
			subscriptions[leave].Leave()
		}
		h.deliver(driver.Event{Kind: driver.EventKind(kind), Channel: channel, Payload: payload})
		for i, p := range parties {
			on := []string{"a", "a", "b"}[i]
			var want []string
			switch {
			case on != channel || int(leave) == i:
			case driver.EventKind(kind) == driver.Subscribed:
				want = []string{""}
			default:
				want = []string{payload}
			}
			if !slices.Equal(p.payloads, want) {
				t.Errorf("%q on %q, kind %d: party %d has heard %q, and not %q", payload, channel, kind, i, p.payloads, want)
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
