package neighbours

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// payloads are messages that no client of ours expects, and some that look as if it did.
var payloads = []string{
	"", " ", "0", "1", "-1", "99999999999999999999", "junk", "\x00\r\n", "AAAAAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAA 0", "AAAAAAAAAAAAA 99999999999",
	strings.Repeat("9", 1<<20), strings.Repeat("A", 26) + " " + strings.Repeat("9", 1<<20),
}

// TestNeighbourMessages: the neighbour publishes and listens on each of our channels. The server refuses that except on the channels of grants,
// where its messages change nothing.
func TestNeighbourMessages(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.besieged(t, func(t *testing.T, all []*victim) {
		w.publishAll(t, all)
		for _, v := range all {
			for _, payload := range payloads {
				w.succeed(t, "PUBLISH", grantChannel(v.holder), payload)
			}
		}
	})
}

// TestNeighbourMessagesBeforeRights: before Redis 6.2 the neighbour may publish on every channel. That wakes waiters for nothing.
func TestNeighbourMessagesBeforeRights(t *testing.T) {
	t.Parallel()
	if redistest.AtLeast(t, 6, 2) {
		return
	}
	w := newTown(t)
	w.besieged(t, func(t *testing.T, all []*victim) {
		for _, v := range all {
			for _, channel := range append(channelsOf(v.name), grantChannel(v.holder)) {
				for _, payload := range payloads {
					w.succeed(t, "PUBLISH", channel, payload)
				}
			}
		}
	})
}

// publishAll tries each way to speak and to listen on our channels.
func (w *town) publishAll(t *testing.T, all []*victim) {
	t.Helper()
	if !redistest.AtLeast(t, 6, 2) {
		return // there are no rights to channels
	}
	publish, subscribe := "PUBLISH", "SUBSCRIBE"
	if w.sharded {
		publish, subscribe = "SPUBLISH", "SSUBSCRIBE"
	}
	for _, v := range all {
		for _, channel := range channelsOf(v.name) {
			w.refused(t, publish, channel, "1")
			w.refused(t, "EVAL", "return redis.call(unpack(ARGV))", 0, publish, channel, "1")
			w.refused(t, subscribe, channel)
			w.refused(t, subscribe, "theirs:x", channel)
		}
	}
	w.refused(t, publish, sentinelsChannel, "x")
	for _, pattern := range []string{"*", "redisson_*", "holdfast_granted:*", "__keyspace@0__:*", "__keyevent@0__:del"} {
		w.refused(t, "PSUBSCRIBE", pattern)
		if pattern != "holdfast_granted:*" || w.sharded {
			w.refused(t, subscribe, pattern)
		}
	}
	w.refused(t, "PUBSUB", "CHANNELS", "*")
	w.refused(t, "PUBSUB", "NUMPAT")
	w.refused(t, "PUBSUB", "SHARDCHANNELS")
}

// TestNeighbourFloodsListeners: the neighbour publishes more on the channels of our clients than the server keeps for a listener, so it may end
// their connections. Every waiter gets its lock.
func TestNeighbourFloodsListeners(t *testing.T) {
	t.Parallel()
	w := newTown(t, "client-output-buffer-limit pubsub 1mb 256kb 1")
	w.besieged(t, func(t *testing.T, all []*victim) {
		megabyte := strings.Repeat("9", 1<<20)
		flood := w.theirs.Pipeline()
		for _, v := range all {
			for range 8 {
				flood.Do(background, "PUBLISH", grantChannel(v.holder), megabyte)
			}
		}
		_, err := flood.Exec(background)
		kit.OK(t, err)
		// And ten thousand guesses.
		for _, v := range all {
			flood := w.theirs.Pipeline()
			for i := range 10_000 / len(all) {
				flood.Do(background, "PUBLISH", grantChannel(v.holder), fmt.Sprintf("%026d", i))
			}
			_, err := flood.Exec(background)
			kit.OK(t, err)
		}
	})
}

// TestNeighbourListensForTheDead: the neighbour listens on the channel of a client that is dead, and still listed. A release grants that client the lock,
// and the next waiter gets it when the grant ends: here after 6 s, since a machine may stand still for 3 s, which is what clients ask for.
func TestNeighbourListensForTheDead(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	const dead = "99f17b91-c6cc-889e-88f6-8265bee545cf"
	holder, waiter := w.ours["go-redis"].Client(t), w.ours["rueidis"].Client(t)
	h := kit.Must(t)(holder.NewMutex("ours:" + kit.Fresh()).Lock(background))
	name := h.Name()
	w.admin.Do(t, name, "ZADD", kit.WaitlistKey(name), "0", dead+":1")
	until := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
	w.admin.Do(t, name, "HSET", protocol.RequestsKey(name), dead+":1", "AAAAAAAAAAAAAAAAAAAAAAAAAA 6000 "+until+" 0")
	heard := w.theirs.Subscribe(background, "holdfast_granted:"+dead)
	defer heard.Close()
	kit.OK(t, kit.ErrOf(heard.Receive(background)))
	got := make(chan error, 1)
	go func() { got <- given(waiter.NewMutex(name).Lock(background)) }()
	kit.WaitFor(t, "the waiter", func() bool { return w.admin.Standing(t, name) == 2 })
	kit.Unlock(t, h)
	kit.WaitFor(t, "the grant", func() bool { // the waiter may have to ask before
		return slices.Equal(w.admin.Do(t, name, "HKEYS", name), []string{dead + ":1"})
	})
	kit.OK(t, within(func() error { return <-got }))
}

// TestNeighbourTracks: with the right to CLIENT TRACKING, which rueidis wants unless it has DisableCache, the neighbour sees the names of all keys that
// change.
func TestNeighbourTracks(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	conn, err := net.Dial("tcp", w.nodes[0].Addr())
	kit.OK(t, err)
	defer conn.Close()
	kit.OK(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, "HELLO 3 AUTH theirs pw\r\nCLIENT TRACKING ON BCAST\r\n")
	kit.OK(t, err)
	in := bufio.NewReader(conn)
	seen := func(text string) {
		t.Helper()
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatalf("it does not see %q: %v", text, err)
			}
			if strings.Contains(line, text) {
				return
			}
		}
	}
	seen("+OK")
	h := kit.Must(t)(w.ours["rueidis"].Client(t).NewMutex("ours:" + kit.Fresh()).Lock(background))
	seen(h.Name())
	kit.Unlock(t, h)
}

// sentinelsChannel is where sentinels tell each other, at the servers that they watch, which server is the primary.
const sentinelsChannel = "__sentinel__:hello"

// TestNeighbourAnnounces: the neighbour tells the sentinels that another server is the primary. From Redis 6.2 on the server refuses that. Before,
// sentinels believe it, so every client connects to that server, and sends its password.
func TestNeighbourAnnounces(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 1)
	w := settle(t, &town{nodes: []*redistest.Server{s.Primary(t)}})
	forged := strings.Join([]string{"127.0.0.1", "1", strings.Repeat("f", 40), "99", s.MasterName(), "127.0.0.1", "9", "99"}, ",")
	if redistest.AtLeast(t, 6, 2) {
		w.refused(t, "PUBLISH", sentinelsChannel, forged)
		w.refused(t, "EVAL", "return redis.call(unpack(ARGV))", 0, "PUBLISH", sentinelsChannel, forged)
		return
	}
	w.succeed(t, "PUBLISH", sentinelsChannel, forged)
	kit.WaitFor(t, "the sentinel to name the address", func() bool {
		named := s.Sentinels[0].Cli(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.MasterName())
		return named == "127.0.0.1\n9"
	})
}

// TestNeighbourCounts: the neighbour learns how many clients listen on a channel whose name it knows, but no names of channels.
func TestNeighbourCounts(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	all := w.victims(t, nil, "go-redis")
	count := func(channel string) int64 {
		reply, err := w.theirs.Do(background, "PUBSUB", "NUMSUB", channel).Slice()
		kit.OK(t, err)
		return reply[1].(int64)
	}
	if listeners := count(grantChannel(all[0].holder)); listeners > 1 {
		t.Errorf("%d listen", listeners)
	}
	if listeners := count("holdfast_granted:*"); listeners != 0 {
		t.Errorf("a pattern is taken for a channel: %d listen", listeners)
	}
	w.relieve(t, all)
}
