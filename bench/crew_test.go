package main

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
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// crewCell is a cell of two processes, on a server of its own.
func crewCell(t *testing.T, contender string, w workload) *cell {
	t.Helper()
	addr := redistest.Start(t).Addr()
	m := newMeter(addr)
	t.Cleanup(func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	})
	w.shared, w.processes, w.ramp = true, 2, 20*time.Millisecond
	return &cell{
		workload: w, session: fakeSession(nil), prefix: "t", limit: 20 * time.Second, contender: contender,
		window: 3 * time.Second, // a busy machine may stand still for one
		setup:  setup{addr: addr, pool: 10, lease: 30 * time.Second}, meter: m, progress: t.Output(),
	}
}

// Several processes contend, and each is counted.
func TestCrew(t *testing.T) {
	f := crewCell(t, "holdfast on go-redis", workload{goroutines: 5}).run(t.Context())
	if remark := f.remark(); remark != "" {
		t.Error(remark)
	}
	switch {
	case f.Pairs == 0 || f.Pairs > f.Completed || f.Processes != 2 || f.ProcessFewest == 0 || f.ProcessFewest+f.ProcessMost != f.Pairs:
		t.Errorf("pairs: %+v", f)
	case f.WaitP50 == 0 || f.WaitP50 > f.WaitP99 || f.WaitP99 > f.WaitMax:
		t.Errorf("waits: %+v", f)
	case f.HandOvers == 0 || f.HandOverMean == 0 || f.HandOverP50 == 0 || f.LongestFree == 0:
		t.Errorf("hand-overs: %+v", f)
	case f.Scripts < 1 || f.RedisMicros == 0 || f.Executed == 0:
		t.Errorf("costs: %+v", f)
	}
}

// A lock that excludes nobody is found out also if those who meet are in different
// processes.
func TestCrewSeesOverlap(t *testing.T) {
	f := crewCell(t, bareGoName, workload{goroutines: 2, hold: time.Millisecond}).run(t.Context())
	if f.Overlaps == 0 || f.Pairs == 0 {
		t.Errorf("no overlap seen: %+v", f)
	}
}

// Of those who take turns, both do, and round trips are measured beside them.
func TestCrewTakesTurns(t *testing.T) {
	f := crewCell(t, "holdfast on rueidis", workload{goroutines: 2, hold: time.Millisecond, alternate: true}).run(t.Context())
	if remark := f.remark(); remark != "" {
		t.Error(remark)
	}
	// The processes do not begin in the same moment, so their pairs differ by some.
	if f.Fewest == 0 || f.HandOvers == 0 || f.HandOverP50 == 0 || f.RoundTrip <= 0 {
		t.Errorf("%+v", f)
	}
}

// In a herd each goroutine has a client of its own, so each counts for itself.
func TestHerd(t *testing.T) {
	c := crewCell(t, "holdfast on rueidis", workload{goroutines: 6, clients: true})
	f := c.run(t.Context())
	if remark := f.remark(); remark != "" {
		t.Error(remark)
	}
	if f.Pairs == 0 || f.HandOvers == 0 || f.Scripts < 1 {
		t.Errorf("%+v", f)
	}
	if got := c.workload.share(0) + c.workload.share(1); got != 6 {
		t.Errorf("%d goroutines in all", got)
	}
}

// A lock that nobody can get is reported, and not waited for.
func TestCrewStandsStill(t *testing.T) {
	c := crewCell(t, "holdfast on go-redis", workload{goroutines: 4})
	rdb := redis.NewClient(&redis.Options{Addr: c.setup.addr})
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
	f := c.run(t.Context())
	if !f.StoodStill || f.Pairs != 0 || f.WaitMax < c.window || f.Stuck != 0 || f.Errors != 0 {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(f.remark(), "stood still") {
		t.Errorf("the remark is %q", f.remark())
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

// A crew that cannot work says why, and leaves nothing behind.
func TestCrewFails(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	c := crewCell(t, "nobody on nothing", workload{goroutines: 2})
	if f := c.run(t.Context()); !f.StoodStill || !strings.Contains(f.Error, `no contender "nobody on nothing"`) {
		t.Errorf("%+v", f)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "holdfast-bench-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A process that does not answer is killed.
func TestMemberIsKilled(t *testing.T) {
	m, err := startMember(t.Context(), memberRequest{Contender: "nobody on nothing", Limit: time.Hour}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.awaitReady(t.Context()); err == nil {
		t.Error("it is ready")
	}
	m.kill()
	if o := m.outcome(t.Context()); !o.Still || o.Error == "" {
		t.Errorf("%+v", o)
	}
	if err := m.dismiss(); err != nil {
		t.Error(err)
	}
}

// A process whose parent is gone ends, whatever it does.
func TestMemberEndsWithItsInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "room")
	if err := newRoomFile(file); err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(memberRequest{
		Contender: "bare on go-redis", Addr: redistest.Start(t).Addr(), Pool: 1, Lease: time.Minute, Room: file, Prefix: "t",
		Processes: 1, Goroutines: 1, Window: time.Hour, Limit: time.Hour,
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
		r, closeRoom, err := openRoom(file)
		if err != nil {
			t.Fatal(err)
		}
		defer closeRoom()
		return r.visits.Load() > 0
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
