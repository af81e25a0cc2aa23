package workloads

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/places"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// crewCell is a cell of two processes, on a server of its own.
func crewCell(t *testing.T, contender string, w Workload) *Cell {
	t.Helper()
	server := places.Open(t, "the server", redistest.Start(t).Addr())
	w.Shared, w.Processes, w.Ramp = true, 2, 20*time.Millisecond
	return &Cell{
		Order:   Order{w, "t", 3 * time.Second, 20 * time.Second}, // a busy machine may stand still for one second
		Session: fakeSession(nil), contender: contender,
		setup: contenders.Setup{Addrs: server.Addrs, Pool: 10, Lease: 30 * time.Second}, server: server, progress: t.Output(),
	}
}

// Several processes contend, and each is counted.
func TestCrew(t *testing.T) {
	f := crewCell(t, "holdfast on go-redis", Workload{Goroutines: 5}).Run(t.Context())
	if remark := f.Remark(); remark != "" {
		t.Error(remark)
	}
	switch {
	case f.Pairs == 0 || f.Pairs > f.Completed || f.Processes != 2 || f.ProcessFewest == 0 || f.ProcessFewest+f.ProcessMost != f.Pairs:
		t.Errorf("pairs: %+v", f)
	case f.WaitP50 == 0 || f.WaitP50 > f.WaitP99 || f.WaitP99 > f.WaitMax:
		t.Errorf("waits: %+v", f)
	case f.HandOvers == 0 || f.HandOverMean == 0 || f.HandOverP50 == 0 || f.LongestFree == 0:
		t.Errorf("hand-overs: %+v", f)
	case f.Scripts < 1 || f.RedisMicros == 0:
		t.Errorf("costs: %+v", f)
	}
}

// A lock that excludes nobody is found out also if those who meet are in different
// processes.
func TestCrewSeesOverlap(t *testing.T) {
	f := crewCell(t, "bare on go-redis", Workload{Goroutines: 2, Hold: time.Millisecond}).Run(t.Context())
	if f.Overlaps == 0 || f.Pairs == 0 {
		t.Errorf("no overlap seen: %+v", f)
	}
}

// Of those who take turns, both do, and round trips are measured beside them.
func TestCrewTakesTurns(t *testing.T) {
	f := crewCell(t, "holdfast on rueidis", Workload{Goroutines: 2, Hold: time.Millisecond, Alternate: true}).Run(t.Context())
	if remark := f.Remark(); remark != "" {
		t.Error(remark)
	}
	// The processes do not begin in the same moment, so their pairs differ by some.
	if f.Fewest == 0 || f.HandOvers == 0 || f.HandOverP50 == 0 || f.RoundTrip <= 0 {
		t.Errorf("%+v", f)
	}
}

// In a herd each goroutine has a client of its own, so each counts for itself.
func TestHerd(t *testing.T) {
	c := crewCell(t, "holdfast on rueidis", Workload{Goroutines: 6, Clients: true})
	f := c.Run(t.Context())
	if remark := f.Remark(); remark != "" {
		t.Error(remark)
	}
	if f.Pairs == 0 || f.HandOvers == 0 || f.Scripts < 1 {
		t.Errorf("%+v", f)
	}
	if got := c.share(0) + c.share(1); got != 6 {
		t.Errorf("%d goroutines in all", got)
	}
}

// A lock that nobody can get is reported, and not waited for.
func TestCrewStandsStill(t *testing.T) {
	c := crewCell(t, "holdfast on go-redis", Workload{Goroutines: 4})
	rdb := redis.NewClient(&redis.Options{Addr: c.setup.Addrs[0]})
	defer rdb.Close()
	client, err := holdfast.New(goredisdriver.New(rdb))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	hold, err := client.NewMutex("t:0").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := c.Run(t.Context())
	if !f.StoodStill || f.Pairs != 0 || f.WaitMax < c.Window || f.Stuck != 0 || f.Errors != 0 {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(f.Remark(), "stood still") {
		t.Errorf("the remark is %q", f.Remark())
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

// A crew that cannot work says why, and leaves nothing behind.
func TestCrewFails(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	c := crewCell(t, "nobody on nothing", Workload{Goroutines: 2})
	if f := c.Run(t.Context()); !f.StoodStill || !strings.Contains(f.Error, `no contender "nobody on nothing"`) {
		t.Errorf("%+v", f)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "holdfast-bench-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A process that does not answer is killed.
func TestMemberIsKilled(t *testing.T) {
	m, err := startMember(t.Context(), memberRequest{Contender: "nobody on nothing", Order: Order{Limit: time.Hour}}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Ready(t.Context(), time.Minute); err == nil {
		t.Error("it is ready")
	}
	m.Kill()
	if o := outcomeOf(t.Context(), m, 1); !o.Still || o.Error == "" {
		t.Errorf("%+v", o)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// A process whose parent is gone ends, whatever it does.
func TestMemberEndsWithItsInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "room")
	if err := places.NewRoomFile(file); err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(memberRequest{
		Order:     Order{Workload{Shared: true, Processes: 1, Goroutines: 1}, "t", time.Hour, time.Hour},
		Contender: "bare on go-redis", Room: file,
		Setup: contenders.Setup{Addrs: []string{redistest.Start(t).Addr()}, Pool: 1, Lease: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := testMember(t)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(input, string(request)+"\nbegin\n"); err != nil {
		t.Fatal(err)
	}
	began := func() bool {
		r, closeRoom, err := places.OpenRoom(file)
		if err != nil {
			t.Fatal(err)
		}
		defer closeRoom()
		return r.Visits.Load() > 0
	}
	for end := time.Now().Add(30 * time.Second); !began(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not begin: %s", output.String())
		}
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil { // for an hour, if it did not end
		t.Error(err)
	}
	if text := output.String(); strings.Contains(text, "tallies") {
		t.Errorf("it has come to an end by itself: %s", text)
	}
}

// testMember is this program as a process of a crew.
func testMember(t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), memberEnv+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}
