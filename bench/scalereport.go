package main

import (
	"fmt"
	"strings"
)

func (j *job) writeScale(r *scaleRun) error {
	s := r.report.subscribers
	var idle strings.Builder
	for _, i := range r.report.idle {
		fmt.Fprintf(&idle, " While nothing happens, a node of %s needs %s of a core.", i.Place, percent(i.NodeCPU))
	}
	_, err := fmt.Fprintf(j.stdout, `%s

%s
%s

%s
%s

%s
%s

`,
		wrap(fmt.Sprintf("Locks of their own, %d goroutines, medians over %d rounds of %v in turns. Times are on a core, for one pair: of all nodes together, of the "+
			"busiest node, and of this process. The last but one is how many pairs a second would fill that node's core.", r.sizes.goroutines, j.rounds, j.duration), ""),
		primariesTable(r.report.primaries),
		wrap(fmt.Sprintf("%d locks that two clients want each, on the cluster of %d. What the bus carries are messages of publishers, from node to node.",
			r.sizes.contended, scalePrimaries), ""),
		messagesTable(r.report.messages),
		wrap(fmt.Sprintf("Locks that one process holds with a lease of %v. Shares are of one core. Bytes are Redis' for one hold, with its subscription.", r.setup.lease), ""),
		renewalsTable(r.report.renewals),
		wrap(fmt.Sprintf("A connection that listens costs Redis %s bytes, another channel on it %s bytes, and a message to one listener %s µs, with %s that listen to one channel.%s",
			whole(s.ListenerBytes), whole(s.ChannelBytes), hundredths(s.MessageMicros), grouped(s.Listeners), idle.String()), ""))
	return err
}

func primariesTable(all []primariesRecord) *table {
	t := &table{}
	t.add("locks of their own", "pairs/s (min–max)", "Redis µs", "busiest node µs", "client µs", "fills it", "scripts by node")
	for _, r := range all {
		t.add(r.Place+", "+r.Client, rangeOf(r.PerSecond, whole), rangeOf(r.RedisMicros, short), rangeOf(r.BusiestNode, short),
			rangeOf(r.ClientMicros, short), whole(1e6/r.BusiestNode.Median), sharesText(r.Shares))
	}
	return t
}

// sharesText writes shares in percent.
func sharesText(shares []float64) string {
	texts := make([]string, len(shares))
	for i, s := range shares {
		texts[i] = whole(100 * s)
	}
	return strings.Join(texts, " : ") + " %"
}

func messagesTable(all []messagesRecord) *table {
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

func renewalsTable(all []renewalsRecord) *table {
	t := &table{}
	t.add("held", "holds", "calls/s", "core of Redis", "busiest node", "core", "Redis bytes", "lost")
	for _, r := range all {
		t.add(fmt.Sprintf("%s, names %s, %s", r.Place, r.Names, r.Client), grouped(r.Holds), short(r.Calls), percent(r.RedisCPU), percent(r.Busiest),
			percent(r.CPU), whole(r.RedisBytes), grouped(r.Lost))
	}
	return t
}
