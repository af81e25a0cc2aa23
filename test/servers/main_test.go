package servers

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/test/kit"
)

// processes are what this binary does as a process of its own; see [startProcess].
var processes = map[string]func(addr, name string) error{
	"contends": contend,
	"holds":    holdAndTell,
	"waits":    waitInFairLine,
}

func TestMain(m *testing.M) {
	if run := processes[os.Getenv(processVariable)]; run != nil {
		logging.Disable() // as in every package of tests
		if err := run(os.Getenv(serverVariable), os.Getenv(nameVariable)); err != nil {
			fmt.Fprintln(os.Stderr, os.Getenv(processVariable), err)
			os.Exit(1)
		}
		return
	}
	kit.Main(m)
}

var background = context.Background()
