package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file looks for what holds up a server.

// plainName is what a command's name looks like. The slow log also has what is none.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z.|_-]{0,31}$`)

func blocking(n *node) (found []Finding) {
	const do = "All locks wait while one command runs: use SCAN in place of KEYS, UNLINK in place of DEL, smaller scripts, or another server."
	if f, slow := slowest(n); slow {
		f.Do = do
		found = append(found, f)
	}
	means := n.slowOnTheWhole()
	if len(means) > 0 {
		found = append(found, warn(do, "on the whole these commands are slow: %s", strings.Join(means, ", ")))
	}
	switch {
	case len(found) > 0:
		return found
	case n.noSlow != "":
		return []Finding{unknown(n.noSlow)}
	case n.noInfo != "":
		return []Finding{unknown(n.noInfo)}
	}
	if micros, why := n.settingNumber("slowlog-log-slower-than"); why == "" && (micros < 0 || micros > slowCommand.Microseconds()) {
		return []Finding{unknown("the slow log does not note commands of " + slowCommand.String())}
	}
	return []Finding{pass("no command took %v in the last day, as far as the slow log goes", slowCommand)}
}

// slowest looks at the slow log. Arguments of commands may be secret, so only names are shown.
func slowest(n *node) (f Finding, slow bool) {
	count, longest, name := 0, time.Duration(0), ""
	for _, entry := range n.slow {
		if entry.Duration < slowCommand || n.now.Add(n.offset).Sub(entry.Time) > slowSince || len(entry.Args) == 0 {
			continue
		}
		count++
		if entry.Duration > longest {
			longest, name = entry.Duration, "a command"
			if plainName.MatchString(entry.Args[0]) {
				name = strings.ToUpper(entry.Args[0])
			}
		}
	}
	return warn("", "%d commands took %v or more in the last day; the longest, %s, %v", count, slowCommand, name, longest.Round(time.Millisecond)), count > 0
}

// administrative commands may be slow, and are not sent by programs; EXEC is counted with what it executes.
var administrative = regexp.MustCompile(`^(psync|sync|save|bgsave|bgrewriteaof|shutdown|debug|memory|cluster|replicaof|slaveof|config|module|acl|latency)\b`)

// slowOnTheWhole are the commands whose mean is slow.
func (n *node) slowOnTheWhole() (names []string) {
	for field, stats := range n.info {
		name, ok := strings.CutPrefix(field, "cmdstat_")
		if !ok || administrative.MatchString(name) {
			continue
		}
		values := fields(strings.ReplaceAll(strings.ReplaceAll(stats, "=", ":"), ",", "\n"))
		if mean, err := strconv.ParseFloat(values["usec_per_call"], 64); err == nil && mean >= float64(slowMean.Microseconds()) {
			names = append(names, fmt.Sprintf("%s (%s calls of %.0f ms)", strings.ToUpper(name), values["calls"], mean/1000))
		}
	}
	slices.Sort(names)
	return names
}

func scriptLimit(n *node) []Finding {
	millis, why := n.settingNumber("lua-time-limit") // the other name of busy-reply-threshold, which came with 7.0
	limit := time.Duration(millis) * time.Millisecond
	const do = "Set busy-reply-threshold 5000 (before 7.0: lua-time-limit), the default."
	switch {
	case why != "":
		return []Finding{unknown(why)}
	case limit <= 0:
		return []Finding{warn(do, "a script that hangs cannot be killed: until then no lock is renewed")}
	case limit > lease/2:
		return []Finding{warn(do, "a script that hangs can be killed after %v only: leases of %v end before all is well", limit, lease)}
	}
	return []Finding{pass("a script that hangs can be killed after %v", limit)}
}
