package reports

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/workloads/held"
	"github.com/holdfast-go/holdfast/bench/workloads/scale"
	"github.com/holdfast-go/holdfast/bench/workloads/scripts"
)

// WriteScripts writes the table of --scripts.
func WriteScripts(w io.Writer, turns int, all []scripts.Figures, barest float64) error {
	t := &table{}
	t.add("server time of a pair, µs", "holdfast", "as Redisson", "ratio")
	for _, f := range all {
		t.add(f.Lock, decimal(f.Holdfast, 1), decimal(f.Theirs, 1), hundredths(f.Holdfast/f.Theirs))
	}
	t.add("the barest pair", decimal(barest, 1), none, none)
	_, err := fmt.Fprintf(w, `A free lock taken and given back, by two scripts: the server's own figure for EVALSHA (INFO commandstats).
The fastest of %d turns of %d pairs each, in turns. "As Redisson": scripts that do what Redisson's do,
without the DEL that Redisson sends behind each unlock. The barest pair sets a field and a time to live,
deletes the key and announces it; it is no lock, but the limit.

%s`, turns, scripts.PairsATurn, t)
	return err
}

// WriteHeld writes the tables of --held.
func WriteHeld(w io.Writer, lease time.Duration, holds []held.Holds, waits []held.Waits) error {
	_, err := fmt.Fprintf(w, "%s\n\n%s\n%s\n\n%s",
		wrap(fmt.Sprintf("Locks that are held with a lease of %v, and renewed. Bytes and goroutines are of one hold, beyond its name and a "+
			"variable that it is kept in: live objects on the heap, and stacks of goroutines. Shares are of one core, of all holds together, over "+
			"one lease: of this process, which does nothing else, and of the server.", lease), ""),
		heldTable(holds),
		wrap(fmt.Sprintf("Goroutines that wait in Lock, %d for each lock, while another client holds them all. Bytes and goroutines are of one waiter, beyond "+
			"what it had before it called: objects on the heap, and by how much the stacks grow, the caller's own included.", held.WaitersALock), ""),
		waitTable(waits))
	return err
}

func heldTable(holds []held.Holds) *table {
	t := &table{}
	t.add("held", "holds", "heap bytes", "stack bytes", "goroutines", "core", "core of Redis", "lost")
	for _, h := range holds {
		own, server := none, none
		if h.Window > 0 {
			own, server = percent(h.CPU), percent(h.RedisCPU)
		}
		t.add(h.Contender.Short(), grouped(h.Holds), whole(h.Heap), whole(h.Stacks), hundredths(h.Goroutines), own, server, grouped(h.Lost))
	}
	return t
}

func waitTable(waits []held.Waits) *table {
	t := &table{}
	t.add("waiting", "waiters", "locks", "heap bytes", "stack bytes", "goroutines", "returned early")
	for _, w := range waits {
		t.add(w.Contender.Short(), grouped(w.Waiters), grouped(w.Locks), whole(w.Heap), whole(w.Stacks), hundredths(w.Goroutines), grouped(w.Returned))
	}
	return t
}

// WriteScale writes the tables of --scale.
func WriteScale(w io.Writer, r scale.Report) error {
	s, run := r.Subscribers, r.Run
	var idle strings.Builder
	for _, i := range r.Idle {
		fmt.Fprintf(&idle, " While nothing happens, a node of %s needs %s of a core.", i.Place, percent(i.NodeCPU))
	}
	_, err := fmt.Fprintf(w, "%s\n\n%s\n%s\n\n%s\n%s\n\n%s\n%s\n\n",
		wrap(fmt.Sprintf("Locks of their own, %d goroutines, medians over %d rounds of %v in turns. Times are on a core, for one pair: of all nodes together, of the "+
			"busiest node, and of this process. The last but one is how many pairs a second would fill that node's core.", run.Sizes.Goroutines, run.Rounds, run.Window), ""),
		primariesTable(r.Primaries),
		wrap(fmt.Sprintf("%d locks that two clients want each, on the cluster of %d. What the bus carries are messages of publishers, from node to node.",
			run.Sizes.Contended, scale.Largest), ""),
		messagesTable(r.Messages),
		wrap(fmt.Sprintf("Locks that one process holds with a lease of %v. Shares are of one core. Bytes are Redis' for one hold, with its subscription.", run.Setup.Lease), ""),
		renewalsTable(r.Renewals),
		wrap(fmt.Sprintf("A connection that listens costs Redis %s bytes, another channel on it %s bytes, and a message to one listener %s µs, with %s that listen to one channel.%s",
			whole(s.ListenerBytes), whole(s.ChannelBytes), hundredths(s.MessageMicros), grouped(s.Listeners), idle.String()), ""))
	return err
}

func primariesTable(all []scale.Primaries) *table {
	t := &table{}
	t.add("locks of their own", "pairs/s (min–max)", "Redis µs", "busiest node µs", "client µs", "fills it", "scripts by node")
	for _, r := range all {
		shares := make([]string, len(r.Shares))
		for i, s := range r.Shares {
			shares[i] = whole(100 * s)
		}
		t.add(r.Place+", "+r.Client, rangeOf(r.PerSecond, whole), rangeOf(r.RedisMicros, short), rangeOf(r.BusiestMicros, short),
			rangeOf(r.ClientMicros, short), whole(1e6/r.BusiestMicros.Median), strings.Join(shares, " : ")+" %")
	}
	return t
}

func messagesTable(all []scale.Messages) *table {
	t := &table{}
	t.add("wanted by two", "pairs/s (min–max)", "Redis µs a pair", "scripts a pair", "bus messages a pair")
	for _, r := range all {
		command := "PUBLISH"
		if r.Sharded {
			command = "SPUBLISH"
		}
		t.add(command+", "+r.Client, rangeOf(r.PerSecond, whole), rangeOf(r.RedisMicros, short), rangeOf(r.Scripts, hundredths), rangeOf(r.Bus, hundredths))
	}
	return t
}

func renewalsTable(all []scale.Renewals) *table {
	t := &table{}
	t.add("held", "holds", "calls/s", "core of Redis", "busiest node", "core", "Redis bytes", "lost")
	for _, r := range all {
		t.add(fmt.Sprintf("%s, names %s, %s", r.Place, r.Names, r.Client), grouped(r.Holds), short(r.Calls), percent(r.RedisCPU), percent(r.Busiest),
			percent(r.CPU), whole(r.RedisBytes), grouped(r.Lost))
	}
	return t
}
