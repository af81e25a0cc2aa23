// Package redact takes out of a server's errors what must not be shown.
package redact

import "regexp"

// repeated is how a server begins to repeat the arguments of a command that it does not know. Those of AUTH and HELLO are
// credentials, and a server may have neither.
var repeated = regexp.MustCompile(`,? with args beginning with: .*`)

// Error is what a server has said, without the arguments that it has repeated. They are not to be found in what it wraps
// either: it wraps nothing.
type Error string

func (e Error) Error() string { return string(e) }

// Arguments returns the error, or an [Error] if a server has repeated arguments in it.
func Arguments(err error) error {
	text := err.Error()
	if cut := repeated.ReplaceAllString(text, ""); cut != text {
		return Error(cut)
	}
	return err
}
