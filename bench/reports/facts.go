package reports

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/bench/places"
)

// Facts are about the machine and the programs, all of them looked up.
type Facts []string

// libraries are the modules whose versions are shown.
var libraries = []string{
	"github.com/holdfast-go/holdfast",
	"github.com/redis/go-redis/v9",
	"github.com/redis/rueidis",
	"github.com/bsm/redislock",
	"github.com/go-redsync/redsync/v4",
}

// LookUp asks the system, and the server at this address.
func LookUp(ctx context.Context, addr string) (Facts, error) {
	version, err := redisVersion(ctx, addr)
	if err != nil {
		return nil, err
	}
	all := Facts{
		fmt.Sprintf("%s, %d cores, GOMAXPROCS %d", cpuModel(ctx), runtime.NumCPU(), runtime.GOMAXPROCS(0)),
		fmt.Sprintf("%s; load before the run: %s", system(), places.Load()),
		fmt.Sprintf("%s, Redis %s, %s", runtime.Version(), version, time.Now().UTC().Format(time.RFC3339)),
	}
	built := versions()
	for _, path := range libraries {
		all = append(all, path+" "+built[path])
	}
	return all, nil
}

// String lists the facts as Markdown.
func (f Facts) String() string { return "- " + strings.Join(f, "\n- ") + "\n" }

// versions returns what this program was built with.
func versions() map[string]string {
	found := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	for _, path := range libraries {
		found[path] = unknown
	}
	for _, m := range info.Deps {
		if _, shown := found[m.Path]; !shown {
			continue
		}
		found[m.Path] = m.Version
		if m.Replace != nil { // by a directory beside this one
			found[m.Path] = "(devel)"
		}
	}
	return found
}

const unknown = "unknown"

func redisVersion(ctx context.Context, addr string) (string, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	info, err := rdb.InfoMap(ctx, "server").Result()
	if closed := rdb.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", addr, err)
	}
	return info["Server"]["redis_version"], nil
}

// cpuModel asks the system for the processor's name.
func cpuModel(ctx context.Context) string {
	if runtime.GOOS == "darwin" {
		if out, err := exec.CommandContext(ctx, "sysctl", "-n", "machdep.cpu.brand_string").Output(); err == nil {
			return strings.TrimSpace(string(out))
		}
		return unknown
	}
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return unknown
	}
	defer file.Close() //nolint:errcheck // it was only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

// system names the operating system and what the programs are built for.
func system() string {
	built := runtime.GOOS + "/" + runtime.GOARCH
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return built // it has no name of that kind
	}
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); found {
			return strings.Trim(name, `"`) + ", " + built
		}
	}
	return built
}
