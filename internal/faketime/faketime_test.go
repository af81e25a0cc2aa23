package faketime

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A test that waits for ever ends, and shows who waits where.
func TestWaitingForEver(t *testing.T) {
	const waits = "FAKETIME_WAITS"
	if os.Getenv(waits) != "" {
		Test(t, func(*testing.T) {
			go renewForEver()
			select {}
		})
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWaitingForEver$")
	again.Env = append(os.Environ(), waits+"=1")
	out, err := again.CombinedOutput()
	for _, says := range []string{"TestWaitingForEver: 168h0m0s of fake time have passed", "renewForEver"} {
		if err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%v: %s", err, out)
		}
	}
}

func renewForEver() {
	for {
		time.Sleep(10 * time.Second)
	}
}
