package protocol

import (
	"errors"
	"strconv"
	"strings"
)

// MaxName is the longest name, in bytes.
const MaxName = 1024

var (
	errEmpty  = errors.New("it is empty")
	errLong   = errors.New("it is longer than " + strconv.Itoa(MaxName) + " bytes")
	errBraces = errors.New("its braces form no hash tag, so the keys of the lock would not share a cluster slot; " +
		"use no braces at all, or one closed pair around at least one character, as in {user}:cart")
)

// CheckName says why name cannot be the name of a lock, or returns nil.
//
// A name without an opening brace becomes the hash tag of its other keys, so it
// must not contain a closing one, which would end the tag early. A name with an
// opening brace stands in its other keys as it is, so it must have a tag, and
// the first closing brace must be the tag's: Redis takes the first one after
// the opening brace, Redisson the first one anywhere.
func CheckName(name string) error {
	switch {
	case name == "":
		return errEmpty
	case len(name) > MaxName:
		return errLong
	}
	open, closing := strings.IndexByte(name, '{'), strings.IndexByte(name, '}')
	if open < 0 && closing < 0 || open >= 0 && closing > open+1 {
		return nil
	}
	return errBraces
}
