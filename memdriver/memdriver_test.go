package memdriver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/faketime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T) *Server {
	t.Helper()
	s, err := NewServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestConformance(t *testing.T) {
	s := newServer(t)
	s.SetReplicas(2)
	var drivers []*Driver
	drivertest.Exercise(t, drivertest.Target{
		Open: func(testing.TB) driver.Driver {
			d := s.Driver()
			drivers = append(drivers, d)
			return d
		},
		FlushScripts: func(testing.TB) {}, // a driver sends the whole script
		Subscribers: func(t testing.TB, channel string) int {
			reply, err := s.Do("PUBSUB", "NUMSUB", channel)
			if err != nil {
				t.Fatal(err)
			}
			return int(reply.([]any)[1].(int64))
		},
		KillSubscribers: func(testing.TB) {
			for _, d := range drivers {
				d.LoseMessages(true)
				d.LoseMessages(false)
			}
		},
		Replicas: 2,
		SuspendReplicas: func(_ testing.TB, on bool) {
			if on {
				s.SetReplicas(0)
			} else {
				s.SetReplicas(2)
			}
		},
	})
}

var counting = driver.NewScript("count", `return redis.call('INCR', KEYS[1])`)

// Each fault does to the server and to the caller what it says.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault    Fault
		runs     string // how often the script has run when the caller returns
		later    string // ... and ten seconds later
		took     time.Duration
		answered bool
		mayRun   bool
	}{
		"none":               {runs: "1", later: "1", answered: true},
		"refused":            {fault: Fault{Refuse: errors.New("no")}, runs: "0", later: "0"},
		"request lost":       {fault: Fault{LoseRequest: true}, runs: "0", later: "0", took: time.Second, mayRun: true},
		"request delayed":    {fault: Fault{DelayRequest: 2 * time.Second}, runs: "0", later: "1", took: time.Second, mayRun: true},
		"reply lost":         {fault: Fault{LoseReply: true}, runs: "1", later: "1", took: time.Second, mayRun: true},
		"reply delayed":      {fault: Fault{DelayReply: 500 * time.Millisecond}, runs: "1", later: "1", took: 500 * time.Millisecond, answered: true},
		"reply much delayed": {fault: Fault{DelayReply: 2 * time.Second}, runs: "1", later: "1", took: time.Second, mayRun: true},
		"repeated":           {fault: Fault{Repeat: true, RepeatAfter: 2 * time.Second}, runs: "1", later: "2", answered: true},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := newServer(t)
				d := s.Driver()
				d.SetFaults(func(driver.Call) Fault { return test.fault })
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				start := time.Now()
				reply, err := d.Eval(ctx, driver.Call{Script: counting, Keys: []string{"n"}})
				if took := time.Since(start); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				var failed *driver.Error
				switch {
				case test.answered && (err != nil || reply != int64(1)):
					t.Errorf("reply %v, %v", reply, err)
				case !test.answered && (!errors.As(err, &failed) || failed.MayHaveRun != test.mayRun):
					t.Errorf("error %v, may have run: want %v", err, test.mayRun)
				}
				synctest.Wait()
				wantRuns(t, s, test.runs)
				time.Sleep(10 * time.Second)
				wantRuns(t, s, test.later)
			})
		})
	}
}

// The wait for replicas takes fake time, and ends with them, with its timeout or
// with the context. Faults hit the script.
func TestReplicas(t *testing.T) {
	const hour = time.Hour
	for name, test := range map[string]struct {
		fault        Fault
		replicas     int
		later        int // replicas after half an hour
		deadline     time.Duration
		took         time.Duration
		acknowledged int
		lost         bool
	}{
		"none":          {deadline: 2 * hour, took: hour},
		"too few":       {replicas: 1, later: 1, deadline: 2 * hour, took: hour, acknowledged: 1},
		"enough":        {replicas: 3, later: 3, deadline: 2 * hour, acknowledged: 3},
		"enough later":  {replicas: 1, later: 2, deadline: 2 * hour, took: hour / 2, acknowledged: 2},
		"deadline":      {replicas: 1, later: 1, deadline: hour * 3 / 4, took: hour * 3 / 4},
		"reply delayed": {fault: Fault{DelayReply: time.Minute}, replicas: 2, later: 2, deadline: 2 * hour, took: time.Minute, acknowledged: 2},
		"reply lost":    {fault: Fault{LoseReply: true}, replicas: 2, later: 2, deadline: 2 * hour, took: 2 * hour, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.SetReplicas(test.replicas)
				later := time.AfterFunc(hour/2, func() { s.SetReplicas(test.later) })
				defer later.Stop()
				d := s.Driver()
				d.SetFaults(func(driver.Call) Fault { return test.fault })
				ctx, cancel := context.WithTimeout(context.Background(), test.deadline)
				defer cancel()
				start := time.Now()
				reply, acknowledged, err := d.EvalReplicated(ctx, driver.Call{Script: counting, Keys: []string{"n"}}, 2, hour)
				if took := time.Since(start); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if acknowledged != test.acknowledged {
					t.Errorf("%d acknowledged, want %d", acknowledged, test.acknowledged)
				}
				if answered := err == nil && reply == int64(1); answered == test.lost {
					t.Errorf("reply %v, %v", reply, err)
				}
				synctest.Wait()
				wantRuns(t, s, "1")
			})
		})
	}
}

func wantRuns(t *testing.T, s *Server, want string) {
	t.Helper()
	reply, err := s.Do("GET", "n")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := reply.(string)
	if got == "" {
		got = "0"
	}
	if got != want {
		t.Errorf("the script has run %s times, want %s", got, want)
	}
}

// Keys expire with the bubble's clock, and TIME follows it.
func TestFakeTime(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newServer(t)
		do := func(args ...string) any {
			reply, err := s.Do(args...)
			if err != nil {
				t.Fatal(err)
			}
			return reply
		}
		do("SET", "k", "v", "PX", "3600000")
		before := do("TIME").([]any)[0]
		time.Sleep(time.Hour - time.Millisecond)
		if do("EXISTS", "k") != int64(1) {
			t.Error("expired early")
		}
		time.Sleep(time.Millisecond)
		if do("EXISTS", "k") != int64(0) {
			t.Error("did not expire")
		}
		if before == do("TIME").([]any)[0] {
			t.Error("TIME stands still")
		}
	})
}

func TestLoseMessages(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newServer(t)
		d := s.Driver()
		var events []string
		l := d.Listen(func(e driver.Event) { events = append(events, e.Channel+e.Payload) })
		defer l.Close()
		publish := func() {
			if _, err := s.Do("PUBLISH", "c", "!"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		l.Subscribe("c")
		synctest.Wait()
		publish()
		d.LoseMessages(true)
		publish()
		d.LoseMessages(false)
		synctest.Wait()
		publish()
		if got := strings.Join(events, " "); got != "c c! c c!" {
			t.Errorf("heard %q", got)
		}
	})
}

// The server's clock is what scripts read and what keys expire by.
func TestSetClock(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newServer(t)
		want := func(want string, args ...string) {
			t.Helper()
			reply, err := s.Do(args...)
			if got := fmt.Sprint(reply); err != nil || got != want {
				t.Errorf("%v = %v, %v, want %v", args, got, err, want)
			}
		}
		apart := func(d time.Duration) {
			t.Helper()
			want(strconv.FormatInt(time.Now().Add(d).Unix(), 10), "EVAL", "return tonumber(redis.call('TIME')[1])", "0")
		}
		apart(0)
		want("OK", "SET", "k", "v", "PX", "100000")
		s.SetClock(time.Minute)
		apart(time.Minute)
		want("40000", "PTTL", "k")
		time.Sleep(10 * time.Second)
		apart(time.Minute)
		want("30000", "PTTL", "k")
		s.SetClock(-time.Hour)
		apart(-time.Hour)
		want("30000", "PTTL", "k")
		time.Sleep(10 * time.Second)
		want("20000", "PTTL", "k")
		s.SetClock(0)
		apart(0)
		want("-2", "PTTL", "k")
		// Nobody has asked for a while when the clock is set.
		want("OK", "SET", "k", "v", "PX", "100000")
		time.Sleep(10 * time.Second)
		s.SetClock(-time.Hour)
		time.Sleep(10 * time.Second)
		want("80000", "PTTL", "k")
		s.SetClock(time.Hour)
		s.SetClock(0)
		want("-2", "PTTL", "k")
	})
}
