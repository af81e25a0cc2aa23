package call

import (
	"errors"
	"regexp"

	"github.com/holdfast-go/holdfast/driver"
)

// Code returns the word that a server's refusal begins with; empty if there was none.
func Code(err error) string {
	var failed *driver.Error
	if !errors.As(err, &failed) {
		return ""
	}
	return failed.Code
}

// LacksRight reports whether the server has refused a call because its user may not make it.
func LacksRight(err error) bool {
	code := Code(err)
	return code == "NOPERM" || code != "" && aboutRights.MatchString(err.Error())
}

// aboutRights matches what servers say, of several ages, when a script calls what
// its user may not.
var aboutRights = regexp.MustCompile("ACL failure in script|The user executing the script can't")
