package survey

import "strings"

// isPattern reports whether a text matches anything but itself.
func isPattern(text string) bool { return strings.ContainsAny(text, `*?[\`) }

// matches reports whether a text matches a pattern as Redis has them: * is any text, ? any byte, [a-c]
// and [^a-c] one byte of a set, or none of it, and a \ takes the meaning of what is behind it away.
func matches(pattern, text string) bool {
	for pattern != "" {
		if pattern[0] == '*' {
			return matchesStar(strings.TrimLeft(pattern, "*"), text)
		}
		if text == "" {
			return false
		}
		ok, rest := matchesByte(pattern, text[0])
		if !ok {
			return false
		}
		pattern, text = rest, text[1:]
	}
	return text == ""
}

// matchesStar is matches for what follows a *, which ends at the first place from which the rest up
// to the next * matches: so each * is tried once a byte.
func matchesStar(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	for i := 0; i <= len(text); i++ {
		if rest, left, ok := matchesPart(pattern, text[i:]); ok && (rest == "" && left == "" || rest != "") {
			if rest == "" {
				return true
			}
			return matchesStar(strings.TrimLeft(rest, "*"), left)
		}
	}
	return false
}

// matchesPart matches a pattern up to its next *.
func matchesPart(pattern, text string) (rest, left string, ok bool) {
	for pattern != "" && pattern[0] != '*' {
		if text == "" {
			return "", "", false
		}
		if ok, pattern = matchesByte(pattern, text[0]); !ok {
			return "", "", false
		}
		text = text[1:]
	}
	return pattern, text, true
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
