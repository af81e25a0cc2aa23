package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// writeScripts writes the table of --scripts.
func writeScripts(w io.Writer, turns int, all []scriptFigures, barest float64) error {
	t := &table{}
	t.add("server time of a pair, µs", "holdfast", "as Redisson", "ratio")
	for _, f := range all {
		t.add(f.lock, decimal(f.holdfast, 1), decimal(f.theirs, 1), hundredths(f.holdfast/f.theirs))
	}
	t.add("the barest pair", decimal(barest, 1), none, none)
	_, err := fmt.Fprintf(w, `A free lock taken and given back, by two scripts: the server's own figure for EVALSHA (INFO commandstats).
The fastest of %d turns of %d pairs each, in turns. "As Redisson": scripts that do what Redisson's do,
without the DEL that Redisson sends behind each unlock. The barest pair sets a field and a time to live,
deletes the key and announces it; it is no lock, but the limit.

%s`, turns, pairsATurn, t)
	return err
}

// writeHeld writes the tables of --held.
func writeHeld(w io.Writer, lease time.Duration, holds []heldFigures, waits []waitFigures) error {
	_, err := fmt.Fprintf(w, "%s\n\n%s\n%s\n\n%s",
		wrap(fmt.Sprintf("Locks that are held with a lease of %v, and renewed. Bytes and goroutines are of one hold, beyond its name and a "+
			"variable that it is kept in: live objects on the heap, and stacks of goroutines. Shares are of one core, of all holds together, over "+
			"one lease: of this process, which does nothing else, and of the server.", lease), ""),
		heldTable(holds),
		wrap(fmt.Sprintf("Goroutines that wait in Lock, %d for each lock, while another client holds them all. Bytes and goroutines are of one waiter, beyond "+
			"what it had before it called: objects on the heap, and by how much the stacks grow, the caller's own included.", waitersALock), ""),
		waitTable(waits))
	return err
}

func heldTable(holds []heldFigures) *table {
	t := &table{}
	t.add("held", "holds", "heap bytes", "stack bytes", "goroutines", "core", "core of Redis", "lost")
	for _, h := range holds {
		own, server := none, none
		if h.window > 0 {
			own, server = percent(h.cpu), percent(h.redisCPU)
		}
		t.add(h.contender.short(), grouped(h.holds), whole(h.heap), whole(h.stacks), hundredths(h.goroutines), own, server, grouped(h.lost))
	}
	return t
}

func waitTable(waits []waitFigures) *table {
	t := &table{}
	t.add("waiting", "waiters", "locks", "heap bytes", "stack bytes", "goroutines", "returned early")
	for _, w := range waits {
		t.add(w.contender.short(), grouped(w.waiters), grouped(w.locks), whole(w.heap), whole(w.stacks), hundredths(w.goroutines), grouped(w.returned))
	}
	return t
}

// writeScale writes the tables of --scale.
func writeScale(w io.Writer, r scaleReport) error {
	s, run := r.subscribers, r.run
	var idle strings.Builder
	for _, i := range r.idle {
		fmt.Fprintf(&idle, " While nothing happens, a node of %s needs %s of a core.", i.place, percent(i.nodeCPU))
	}
	_, err := fmt.Fprintf(w, "%s\n\n%s\n%s\n\n%s\n%s\n\n%s\n%s\n\n",
		wrap(fmt.Sprintf("Locks of their own, %d goroutines, medians over %d rounds of %v in turns. Times are on a core, for one pair: of all nodes together, of the "+
			"busiest node, and of this process. The last but one is how many pairs a second would fill that node's core.", run.sizes.goroutines, run.rounds, run.window), ""),
		primariesTable(r.primaries),
		wrap(fmt.Sprintf("%d locks that two clients want each, on the cluster of %d. What the bus carries are messages of publishers, from node to node.",
			run.sizes.contended, scalePrimaries), ""),
		messagesTable(r.messages),
		wrap(fmt.Sprintf("Locks that one process holds with a lease of %v. Shares are of one core. Bytes are Redis' for one hold, with its subscription.", run.setup.Lease), ""),
		renewalsTable(r.renewals),
		wrap(fmt.Sprintf("A connection that listens costs Redis %s bytes, another channel on it %s bytes, and a message to one listener %s µs, with %s that listen to one channel.%s",
			whole(s.listenerBytes), whole(s.channelBytes), hundredths(s.messageMicros), grouped(s.listeners), idle.String()), ""))
	return err
}

func primariesTable(all []primariesFigures) *table {
	t := &table{}
	t.add("locks of their own", "pairs/s (min–max)", "Redis µs", "busiest node µs", "client µs", "fills it", "scripts by node")
	for _, r := range all {
		shares := make([]string, len(r.shares))
		for i, s := range r.shares {
			shares[i] = whole(100 * s)
		}
		t.add(r.place+", "+r.client, rangeOf(r.perSecond, whole), rangeOf(r.redisMicros, short), rangeOf(r.busiestMicros, short),
			rangeOf(r.clientMicros, short), whole(1e6/r.busiestMicros.Median), strings.Join(shares, " : ")+" %")
	}
	return t
}

func messagesTable(all []messagesFigures) *table {
	t := &table{}
	t.add("wanted by two", "pairs/s (min–max)", "Redis µs a pair", "scripts a pair", "bus messages a pair")
	for _, r := range all {
		command := "PUBLISH"
		if r.sharded {
			command = "SPUBLISH"
		}
		t.add(command+", "+r.client, rangeOf(r.perSecond, whole), rangeOf(r.redisMicros, short), rangeOf(r.scripts, hundredths), rangeOf(r.bus, hundredths))
	}
	return t
}

func renewalsTable(all []renewalsFigures) *table {
	t := &table{}
	t.add("held", "holds", "calls/s", "core of Redis", "busiest node", "core", "Redis bytes", "lost")
	for _, r := range all {
		t.add(fmt.Sprintf("%s, names %s, %s", r.place, r.names, r.client), grouped(r.holds), short(r.calls), percent(r.redisCPU), percent(r.busiest),
			percent(r.cpu), whole(r.redisBytes), grouped(r.lost))
	}
	return t
}
