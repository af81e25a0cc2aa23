package places

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Section is one section of INFO: what follows the colon, by what stands before it.
type Section = map[string]string

// Info asks a server for a section, by its title.
func Info(ctx context.Context, rdb *redis.Client, title string) (Section, error) {
	info, err := rdb.InfoMap(ctx, title).Result()
	return info[title], err
}

// cpuTime returns how long the server process has been on a core, in user and
// system mode together, all of its threads. The section is cpu.
func cpuTime(section Section) (sum time.Duration, err error) {
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(section[name], 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu: %s: %w", name, err)
		}
		sum += time.Duration(seconds * float64(time.Second))
	}
	return sum, nil
}

// scriptsRun returns how many scripts the server has run. The section is commandstats.
func scriptsRun(section Section) (sum int64, err error) {
	for _, name := range []string{"cmdstat_eval", "cmdstat_evalsha", "cmdstat_fcall"} {
		calls, err := CommandStat(section, name, "calls")
		if err != nil {
			return 0, err
		}
		sum += calls
	}
	return sum, nil
}

// CommandStat returns one number of a command, 0 if it has not been executed yet.
// The section is commandstats.
func CommandStat(section Section, command, field string) (int64, error) {
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

// clusterInfo asks a node of a cluster about it.
func clusterInfo(ctx context.Context, rdb *redis.Client) (Section, error) {
	text, err := rdb.ClusterInfo(ctx).Result()
	if err != nil {
		return nil, err
	}
	section := Section{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		section[name] = value
	}
	return section, nil
}

// busMessages returns how many messages of publishers a node of a cluster has sent to others.
// The section is that of CLUSTER INFO.
func busMessages(section Section) (sum int64, err error) {
	for _, name := range []string{"cluster_stats_messages_publish_sent", "cluster_stats_messages_publishshard_sent"} {
		if section[name] == "" { // none yet
			continue
		}
		n, err := strconv.ParseInt(section[name], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CLUSTER INFO: %s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}

// usedMemory asks a server how many bytes it uses.
func usedMemory(ctx context.Context, rdb *redis.Client) (int64, error) {
	info, err := Info(ctx, rdb, "Memory")
	if err != nil {
		return 0, err
	}
	bytes, err := strconv.ParseInt(info["used_memory"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("INFO memory: %w", err)
	}
	return bytes, nil
}
