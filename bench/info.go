package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// infoSection is one section of INFO: what follows the colon, by what stands before it.
type infoSection = map[string]string

// cpuTime returns how long the server process has been on a core, in user and
// system mode together, all of its threads. The section is cpu.
func cpuTime(section infoSection) (sum time.Duration, err error) {
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(section[name], 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu: %s: %w", name, err)
		}
		sum += time.Duration(seconds * float64(time.Second))
	}
	return sum, nil
}

// executed returns how many commands the server has executed, those that scripts
// call included, without INFO, which is ours. The section is commandstats.
func executed(section infoSection) (sum int64, err error) {
	for name := range section {
		if name == "cmdstat_info" {
			continue
		}
		calls, err := commandStat(section, name, "calls")
		if err != nil {
			return 0, err
		}
		sum += calls
	}
	return sum, nil
}

// scriptCalls returns how many scripts the server has run. The section is commandstats.
func scriptCalls(section infoSection) (sum int64, err error) {
	for _, name := range []string{"cmdstat_eval", "cmdstat_evalsha", "cmdstat_fcall"} {
		calls, err := commandStat(section, name, "calls")
		if err != nil {
			return 0, err
		}
		sum += calls
	}
	return sum, nil
}

// commandStat returns one number of a command, 0 if it has not been executed yet.
// The section is commandstats.
func commandStat(section infoSection, command, field string) (int64, error) {
	line, found := section[command]
	if !found {
		return 0, nil
	}
	for stat := range strings.SplitSeq(line, ",") {
		if text, found := strings.CutPrefix(stat, field+"="); found {
			return strconv.ParseInt(text, 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO commandstats: %s has no %s: %q", command, field, line)
}
