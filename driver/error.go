package driver

import (
	"crypto/tls"
	"errors"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/internal/redact"
)

// Error is a call that brought no reply from the script.
type Error struct {
	// Code is the word that the server's error reply begins with, such as
	// WRONGTYPE; empty if there was no reply. NOSCRIPT says that the server does
	// not have the script, and refuses EVAL.
	Code string
	// MayHaveRun is false only if the script certainly did not run.
	MayHaveRun bool
	// Transient is true if the same call may well succeed a little later: the
	// server is away, loading, busy, or handing over to another.
	Transient bool
	// Pending is true if the context ended first, and Call.Late is going to be told what
	// came of the call.
	Pending bool
	// Err is the client's error. It carries no credential.
	Err error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// ServerError turns an error reply into an [*Error]. message is the reply
// without its leading dash, and possibly without a leading ERR; err is what the
// client made of it.
func ServerError(message string, err error) *Error {
	err = redact.Reply(err)
	if betweenNodes(message) {
		return &Error{MayHaveRun: true, Transient: true, Err: err}
	}
	word, _, _ := strings.Cut(message, " ")
	if refused := refusedInScript.FindStringSubmatch(message); refused != nil {
		word = refused[1]
	}
	switch {
	case strings.HasPrefix(strings.TrimPrefix(message, "ERR "), "Protocol error: unauthenticated "):
		word = "NOAUTH" // the reply to a long request before AUTH
	case word == "NOPERM" && strings.Contains(message, "'eval' command"), unknownEval.MatchString(message):
		word = "NOSCRIPT" // an adapter sends EVAL after NOSCRIPT only, which says more
	case word != strings.ToUpper(word), word == "ACL": // as in ACL failure in script
		word = "ERR" // which was cut off
	}
	failure := classify(word)
	failure.Code, failure.Err = word, err
	return failure
}

// classify interprets the first word of an error reply.
func classify(word string) *Error {
	switch word {
	case "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK":
		// Replied before the script starts.
		return &Error{Transient: true}
	case "READONLY", "NOREPLICAS", "MISCONF", "OOM", "UNKILLABLE":
		// Replied by the first command that writes, or before the script starts. Our
		// scripts write nothing before that command.
		return &Error{Transient: true}
	case "NOAUTH", "WRONGPASS", "NOPERM", "CROSSSLOT", "NOSCRIPT":
		// NOPERM refuses the call. A command that a script may not run is an ERR.
		return &Error{}
	default:
		// ERR, WRONGTYPE and the like may come from inside the script, and Redis
		// does not roll back.
		return &Error{MayHaveRun: true}
	}
}

// refusedInScript finds the word with which a server before Redis 7.0 refuses a
// command of a script, or the command itself does, such as WRONGTYPE, without a
// dash. Later servers begin the error with it.
var refusedInScript = regexp.MustCompile(
	`^(?:ERR )?Error running script \(call to f_[0-9a-f]{40}\): @user_script:\d+: (?:@user_script: \d+: -)?([A-Z]+) `)

// unknownEval matches the refusal of EVAL by a server that does not have it, such as one whose configuration renames it.
var unknownEval = regexp.MustCompile("(?i)^(?:ERR )?unknown command ['`]eval['`]")

// betweenNodes reports whether a command inside the script was refused because a
// cluster is moving the slot, and the key may be on another node. The second is what
// Redis 8 says.
func betweenNodes(message string) bool {
	return strings.Contains(message, "attempted to access a non local key") ||
		strings.Contains(message, "during rehashing of the slot")
}

// ConnectionError turns a failure to get any reply into an [*Error].
// notSent says that the request certainly never left.
func ConnectionError(err error, notSent bool) *Error {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		// A retry meets the same certificate.
		return &Error{Err: err}
	}
	return &Error{MayHaveRun: !notSent, Transient: true, Err: err}
}
