package driver

import (
	"errors"
	"strings"
	"testing"
)

// What servers answer to a script of which a command is refused, word for word.
// Each is also tried without ERR, which rueidis cuts off.
func TestServerErrorInScript(t *testing.T) {
	t.Parallel()
	const (
		call   = "Error running script (call to f_4c06fea5dd3ae260603752e554a0723b8670ca51): @user_script:70: "
		place  = " script: 4c06fea5dd3ae260603752e554a0723b8670ca51, on @user_script:70."
		oom    = "OOM command not allowed when used memory > 'maxmemory'."
		ro     = "READONLY You can't write against a read only replica."
		rdb    = "MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk."
		aof    = "MISCONF Errors writing to the AOF file: No space left on device"
		noperm = "The user executing the script can't run this command or subcommand"
	)
	passes := func(code string) Error { return Error{Code: code, Transient: true} }
	final, otherType := Error{Code: "ERR", MayHaveRun: true}, Error{Code: "WRONGTYPE", MayHaveRun: true}
	for _, c := range []struct {
		version, message string
		want             Error
	}{
		{"6.0", "ERR " + call + "@user_script: 70: -" + oom, passes("OOM")},
		{"6.0", "ERR " + call + "@user_script: 70: -" + ro, passes("READONLY")},
		{"6.0", "ERR " + call + "@user_script: 70: -" + rdb, passes("MISCONF")},
		{"6.0", "ERR " + call + "@user_script: 70: -" + aof, passes("MISCONF")},
		{"6.0", "ERR " + call + "@user_script: 70: " + noperm, final},
		{"6.0", "ERR " + call + "@user_script: 70: Unknown Redis command called from Lua script", final},
		{"6.0", "ERR " + call + "WRONGTYPE Operation against a key holding the wrong kind of value", otherType},
		{"6.0", "ERR " + call + "user_script:70: attempt to concatenate a nil value", final},
		{"7.0", oom + place, passes("OOM")},
		{"7.0", ro + place, passes("READONLY")},
		{"7.0", "NOREPLICAS Not enough good replicas to write." + place, passes("NOREPLICAS")},
		{"7.0", "ERR " + noperm + place, final},
		{"7.0", "TRYAGAIN Multiple keys request during rehashing of slot", passes("TRYAGAIN")},
		{"7.0", "WRONGTYPE Operation against a key holding the wrong kind of value" + place, otherType},
		{"8.0", "ERR ACL failure in script: User u has no permissions to run the 'set' command" + place, final},
		// What a lock's name or owner brings into a message says nothing.
		{"6.0", "ERR " + call + "user_script:70: @user_script: 70: -" + oom, final},
		{"6.0", "ERR lease is not a number of milliseconds: @user_script: 70: -" + oom, final},
	} {
		for _, message := range []string{c.message, strings.TrimPrefix(c.message, "ERR ")} {
			cause := errors.New(message)
			got := ServerError(message, cause)
			if got.Code != c.want.Code || got.MayHaveRun != c.want.MayHaveRun || got.Transient != c.want.Transient || !errors.Is(got, cause) {
				t.Errorf("%s: %s: code %s, MayHaveRun %t, Transient %t", c.version, message, got.Code, got.MayHaveRun, got.Transient)
			}
			if strings.Contains(got.Error(), "4c06fea5") {
				t.Errorf("%s: it is shown as %q", c.version, got)
			}
		}
	}
}

// TestServerErrorOfEval has the refusals of EVAL, word for word: the script is not loaded. A user without EVALSHA lacks a right.
func TestServerErrorOfEval(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"NOPERM this user has no permissions to run the 'eval' command or its subcommand": "NOSCRIPT", // 6.0
		"NOPERM this user has no permissions to run the 'eval' command":                   "NOSCRIPT", // 7.0
		"NOPERM User billing has no permissions to run the 'eval' command":                "NOSCRIPT", // from 7.2 on
		"NOPERM this user has no permissions to run the 'evalsha' command":                "NOPERM",
		"NOPERM User eval has no permissions to run the 'evalsha' command":                "NOPERM",
		"ERR unknown command 'EVAL', with args beginning with: 'return 1' '0' ":           "NOSCRIPT", // renamed
		"unknown command `eval`, with args beginning with: `return 1`, `0`, ":             "NOSCRIPT", // before 7.0, without ERR
		"NOSCRIPT No matching script. Please use EVAL.":                                   "NOSCRIPT",
	} {
		if got := ServerError(message, errors.New(message)); got.Code != want || got.MayHaveRun || got.Transient {
			t.Errorf("%s: %+v", message, *got)
		}
	}
}

// TestServerErrorThatRepeatsAPassword: package redact says which servers do.
func TestServerErrorThatRepeatsAPassword(t *testing.T) {
	t.Parallel()
	const said = "ERR unknown command 'AUTH', with args beginning with: 's3cret' "
	if got := ServerError(said, errors.New(said)); strings.Contains(got.Error(), "s3cret") || got.Code != "ERR" {
		t.Errorf("%s: %v", got.Code, got)
	}
}
