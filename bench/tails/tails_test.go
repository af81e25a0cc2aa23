package tails_test

import (
	"flag"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/bench/tails"
)

func TestMain(m *testing.M) {
	if tails.Child() {
		return
	}
	tails.Flags(flag.CommandLine)
	flag.Parse()
	logging.Disable() // of go-redis: connections fail here on purpose
	os.Exit(m.Run())
}

func TestLossCutOff(t *testing.T)              { tails.LossCutOff(t) }
func TestLossStopped(t *testing.T)             { tails.LossStopped(t) }
func TestLossForced(t *testing.T)              { tails.LossForced(t) }
func TestCrash(t *testing.T)                   { tails.Crash(t) }
func TestCrashCrowd(t *testing.T)              { tails.CrashCrowd(t) }
func TestDeadWaiter(t *testing.T)              { tails.DeadWaiter(t) }
func TestStoppedWaiter(t *testing.T)           { tails.StoppedWaiter(t) }
func TestStoppedWaiters(t *testing.T)          { tails.StoppedWaiters(t) }
func TestReleased(t *testing.T)                { tails.Released(t) }
func TestMessageConnectionClosed(t *testing.T) { tails.MessageConnectionClosed(t) }
func TestMessageConnectionsCut(t *testing.T)   { tails.MessageConnectionsCut(t) }
func TestMessageLost(t *testing.T)             { tails.MessageLost(t) }
func TestFailoverSentinel(t *testing.T)        { tails.FailoverSentinel(t) }
func TestFailoverCluster(t *testing.T)         { tails.FailoverCluster(t) }
func TestPage(t *testing.T)                    { tails.WritePage(t) }
