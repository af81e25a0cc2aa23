package survey

import "strings"

// isPattern reports whether a text matches anything but itself.
func isPattern(text string) bool { return strings.ContainsAny(text, `*?[\`) }

// matches reports whether a text matches a pattern as Redis has them: * is any text, ? any byte, [a-c]
// and [^a-c] one byte of a set, or none of it, and a \ takes the meaning of what is behind it away.
//
// Where a text does not go on as the pattern does, the last * takes a byte more. An earlier one need not: what it takes is
// as little as can be already.
func matches(pattern, text string) bool {
	var behindStar, untaken string
	star := false
	for pattern != "" || text != "" {
		if strings.HasPrefix(pattern, "*") {
			pattern = pattern[1:]
			behindStar, untaken, star = pattern, text, true
			continue
		}
		if pattern != "" && text != "" {
			if ok, rest := matchesByte(pattern, text[0]); ok {
				pattern, text = rest, text[1:]
				continue
			}
		}
		if !star || untaken == "" {
			return false
		}
		untaken = untaken[1:]
		pattern, text = behindStar, untaken
	}
	return true
}

// matchesByte matches one byte and returns the rest of the pattern.
func matchesByte(pattern string, c byte) (ok bool, rest string) {
	switch {
	case pattern[0] == '?':
		return true, pattern[1:]
	case pattern[0] == '[':
		return matchesSet(pattern[1:], c)
	case pattern[0] == '\\' && len(pattern) > 1:
		pattern = pattern[1:]
	}
	return pattern[0] == c, pattern[1:]
}

// matchesSet matches what stands behind a [.
func matchesSet(set string, c byte) (ok bool, rest string) {
	set, not := strings.CutPrefix(set, "^")
	for set != "" && set[0] != ']' {
		switch {
		case set[0] == '\\' && len(set) > 1:
			ok, set = ok || set[1] == c, set[2:]
		case len(set) > 2 && set[1] == '-':
			ok, set = ok || min(set[0], set[2]) <= c && c <= max(set[0], set[2]), set[3:]
		default:
			ok, set = ok || set[0] == c, set[1:]
		}
	}
	return ok != not, strings.TrimPrefix(set, "]")
}
