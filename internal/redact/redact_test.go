package redact

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestRepeatedArguments(t *testing.T) {
	for _, said := range []string{
		"ERR unknown command 'AUTH', with args beginning with: 's3cret' ",
		"ERR unknown command `hello`, with args beginning with: `3`, `AUTH`, `ann`, `s3cret`, ", // before Redis 7.0
	} {
		for _, err := range []error{errors.New(said), errors.Join(io.EOF, errors.New(said))} {
			got := Reply(err)
			if strings.Contains(got.Error(), "s3cret") || !strings.Contains(got.Error(), "unknown command") || errors.Unwrap(got) != nil {
				t.Errorf("%q", got)
			}
		}
	}
	if got := Reply(io.EOF); !errors.Is(got, io.EOF) {
		t.Error(got)
	}
}

// TestPlaceInScript has what servers say of a script, word for word.
func TestPlaceInScript(t *testing.T) {
	const sha = "4c06fea5dd3ae260603752e554a0723b8670ca51"
	for said, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'. script: " + sha + ", on @user_script:44.":                   "OOM command not allowed when used memory > 'maxmemory'.",
		"WRONGTYPE Operation against a key script: " + sha + ", on @user_script:7.":                                          "WRONGTYPE Operation against a key",
		"ERR user_script:44: attempt to index a nil value script: " + sha + ", on @user_script:44.":                          "ERR attempt to index a nil value",
		"ERR on purpose script: " + sha + ".":                                                                                "ERR on purpose",
		"ERR Error running script (call to f_" + sha + "): @user_script:44: @user_script: 44: -READONLY You can't write":     "READONLY You can't write",
		"ERR Error running script (call to f_" + sha + "): @user_script:44: @user_script: 44: Unknown Redis command called":  "Unknown Redis command called",
		"Error running script (call to f_" + sha + "): @user_script:44: WRONGTYPE Operation against a key":                   "WRONGTYPE Operation against a key",
		"goredisdriver: ERR Error running script (call to f_" + sha + "): @user_script:44: @user_script: 44: -OOM no memory": "goredisdriver: OOM no memory",
	} {
		cause := errors.New(said)
		if got := Reply(cause); got.Error() != want || !errors.Is(got, cause) {
			t.Errorf("%q became %q", said, got)
		}
	}
}
