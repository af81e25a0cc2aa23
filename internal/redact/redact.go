// Package redact takes out of a server's errors what must not be shown.
package redact

import (
	"errors"
	"regexp"
)

// repeated is how a server begins to repeat the arguments of a command that it does not know. Those of AUTH and HELLO are
// credentials, and a server may have neither.
var repeated = regexp.MustCompile(`,? with args beginning with: .*`)

// Arguments returns the error without the arguments that a server has repeated. What is cut is not to be found in what it
// wraps either, so then it wraps nothing.
func Arguments(err error) error {
	text := err.Error()
	if cut := repeated.ReplaceAllString(text, ""); cut != text {
		return errors.New(cut)
	}
	return err
}
