package places

import (
	"testing"
	"time"
)

func TestCPUTime(t *testing.T) {
	got, err := cpuTime(Section{
		"used_cpu_sys": "1.500000", "used_cpu_user": "2.250001",
		"used_cpu_sys_children": "100", "used_cpu_user_main_thread": "100",
	})
	if want := 3750001 * time.Microsecond; err != nil || got.Round(time.Microsecond) != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := cpuTime(Section{"used_cpu_sys": "1"}); err == nil {
		t.Error("half of it is no error")
	}
}

func TestScriptsRun(t *testing.T) {
	section := Section{
		"cmdstat_evalsha": "calls=10,usec=300,usec_per_call=30.00,rejected_calls=7,failed_calls=0",
		"cmdstat_hset":    "calls=5,usec=10,usec_per_call=2.00",
		"cmdstat_eval":    "calls=3,usec=10,usec_per_call=2.00",
	}
	if got, err := scriptsRun(section); err != nil || got != 13 {
		t.Errorf("%d, %v, want 13", got, err)
	}
	if got, err := CommandStat(section, "cmdstat_evalsha", "usec"); err != nil || got != 300 {
		t.Errorf("%d, %v, want 300", got, err)
	}
	if got, err := CommandStat(section, "cmdstat_get", "usec"); err != nil || got != 0 {
		t.Errorf("never called: %d, %v", got, err)
	}
	if _, err := CommandStat(section, "cmdstat_hset", "failed_calls"); err == nil {
		t.Error("a missing number is no error")
	}
	section["cmdstat_eval"] = "calls=many"
	if _, err := scriptsRun(section); err == nil {
		t.Error("a number that is none is no error")
	}
}
