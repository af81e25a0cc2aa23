package driver

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// beforeItRuns are the words of replies to calls that have certainly not changed anything.
var beforeItRuns = []string{
	"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "READONLY", "NOREPLICAS", "MISCONF", "OOM", "UNKILLABLE",
	"NOAUTH", "WRONGPASS", "NOPERM", "CROSSSLOT", "NOSCRIPT",
}

// FuzzServerError: whatever a server says, a call is said to have had no effect for one of a few words
// alone, and the word that callers decide by is one.
func FuzzServerError(f *testing.F) {
	for _, seed := range []string{
		"", " ", "ERR", "OOM command not allowed", "ERR Error running script (call to f_" + strings.Repeat("0", 40) + "): @user_script:1: WRONGTYPE Operation",
		"ERR Error running script (call to f_" + strings.Repeat("a", 40) + "): @user_script:12: @user_script: 12: -READONLY You can't",
		"Script attempted to access a non local key", "ACL failure in script", "Protocol error: unauthenticated bulk length", "MOVED 1 a:1", "busy", "\nOOM x",
		"NOPERM this user has no permissions to run the 'eval' command", "ERR unknown command 'EVAL', with",
	} {
		f.Add(seed)
	}
	cause := errors.New("cause")
	f.Fuzz(func(t *testing.T, message string) {
		e := ServerError(message, cause)
		if !errors.Is(e, cause) || e.Pending {
			t.Errorf("%+v", e)
		}
		if !e.MayHaveRun && !slices.Contains(beforeItRuns, e.Code) {
			t.Errorf("%q is said to have had no effect: %+v", message, e)
		}
		if !e.MayHaveRun && !strings.Contains(message, e.Code) && e.Code != "NOAUTH" && e.Code != "NOSCRIPT" {
			t.Errorf("%q does not say %s", message, e.Code)
		}
		if strings.Contains(e.Code, " ") || e.Code != strings.ToUpper(e.Code) {
			t.Errorf("%q became the word %q", message, e.Code)
		}
	})
}
