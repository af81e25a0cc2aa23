// Package redact takes out of a server's errors what must not be shown, and what helps no reader.
package redact

import "regexp"

// repeated is how a server begins to repeat the arguments of a command that it does not know. Those of AUTH and HELLO are
// credentials, and a server may have neither.
var repeated = regexp.MustCompile(`,? with args beginning with: .*`)

// place matches what servers add to an error of a script: its SHA-1, and the line. Before Redis 7.0 it precedes the error, later
// it follows it.
var place = regexp.MustCompile(`(?:ERR )?Error running script \(call to f_[0-9a-f]{40}\): |@?user_script: ?\d+: -?` +
	`| script: [0-9a-f]{40}(?:, on @user_script:\d+)?\.?`)

// Error is what a server has said, without the arguments that it has repeated. They are not to be found in what it wraps
// either: it wraps nothing.
type Error string

func (e Error) Error() string { return string(e) }

// placelessError is an error whose text leaves out the place in a script.
type placelessError struct{ err error }

func (e placelessError) Error() string { return place.ReplaceAllString(e.err.Error(), "") }

func (e placelessError) Unwrap() error { return e.err }

// Reply returns the error without text that must not be shown. If a server has repeated arguments in it, the result is an [Error].
// If a server has named the place in a script, the result wraps the error and omits the place.
func Reply(err error) error {
	text := err.Error()
	switch cut := repeated.ReplaceAllString(text, ""); {
	case cut != text:
		return Error(place.ReplaceAllString(cut, ""))
	case place.MatchString(text):
		return placelessError{err}
	}
	return err
}
