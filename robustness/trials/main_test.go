//go:build unix

package trials

import (
	"os"
	"testing"
)

// memberVariable names the file with what a member is to do, in its process.
const memberVariable = "HOLDFAST_TRIAL_MEMBER"

func TestMain(m *testing.M) {
	if path := os.Getenv(memberVariable); path != "" {
		os.Exit(runMember(path))
	}
	os.Exit(m.Run())
}
