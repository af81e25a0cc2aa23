// Package present writes locks for people: names that cannot harm a terminal, times, who holds a lock,
// and tables that fit the width there is.
//
// Texts that are measured go through [Safe] here, since an escape is wider than what it stands for. Package printer escapes the rest.
package present

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	layout "github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// widest is how many columns a text from Redis has at most, where a terminal does not have fewer: in a file, too, one name must not
// make every line of a table as wide as itself.
const widest = 200

// None stands where there is nothing to say.
const None = "-"

// Safe is [visible.Text] of one value. If it escapes anything there, a backslash is doubled, so that none is taken for an escape.
func Safe(text string) string {
	if visible.Text(text) == text {
		return text
	}
	return visible.Text(strings.ReplaceAll(text, `\`, `\\`))
}

// Cut returns a text that is safe, and shortened if it is wider than 200 columns.
func Cut(text string) string { return Fit(Safe(text), widest) }

// Fit shortens a safe text to so many columns, in the middle: the ends of names tell them apart.
func Fit(text string, width int) string {
	all := ansi.StringWidth(text)
	switch {
	case all <= width:
		return text
	case width < 2:
		return strings.Repeat("…", max(width, 0))
	}
	right := (width - 1) / 2
	end := ansi.Cut(text, all-right, all)
	for from := all - right; ansi.StringWidth(end) > right; from++ { // the cut went through a wide character
		end = ansi.Cut(text, from, all)
	}
	return ansi.Truncate(text, width-1-right, "") + "…" + end
}

// pad fills a text up to so many columns.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

// Span writes a duration in two units at most, and "no end" for [holdfast.NoExpiry].
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == holdfast.NoExpiry:
		return "no end"
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}

// Who names a client by what it says of itself, or else by its owner in Redis. What MinHold keeps from others is the client's that
// has set it, which may have ended.
func Who(who holdfast.Identity, owner string) string {
	name := owner
	if !who.IsZero() {
		name = who.String()
	}
	if protocol.Kept(owner) {
		name = "MinHold of " + name
	}
	return Cut(name)
}

// Remaining says for how much longer one holds a lock, whose owner in Redis that is.
func Remaining(owner string, ttl time.Duration) string {
	switch {
	case ttl == holdfast.NoExpiry:
		return "without an end"
	case protocol.Kept(owner):
		return Span(ttl) + " more"
	}
	return Span(ttl) + " more unless renewed"
}

// KindOf names a lock's kind; one that is not sure has a question mark.
func KindOf(l survey.Lock) string {
	switch {
	case l.Kind == survey.Number && l.Ours:
		return string(survey.Semaphore) + "?"
	case l.Kind == survey.Number:
		return string(l.Kind) + "?"
	}
	return string(l.Kind)
}

// StateOf says in a word or a few how a lock stands.
func StateOf(l survey.Lock) string {
	switch {
	case l.Kind == survey.Permits:
		return fmt.Sprintf("%d of %d", l.Taken, l.Total)
	case l.Kind == survey.Semaphore:
		return fmt.Sprintf("%d left", l.Available)
	case l.State == survey.Closed:
		return fmt.Sprintf("%d to go", l.Count)
	case l.Kind == survey.Number:
		return fmt.Sprintf("= %d", l.Count)
	case l.Mode != "":
		return l.Mode
	}
	return string(l.State)
}

// HolderOf names who holds a lock: the first, and how many more there are.
func HolderOf(l survey.Lock) string {
	if len(l.Holders) == 0 {
		return None
	}
	name := Who(l.Holders[0].Who, l.Holders[0].Owner)
	if more := l.HolderCount - 1; more > 0 {
		name += fmt.Sprintf(" +%d", more)
	}
	return name
}

// briefHolder is HolderOf without the process's number: the program and the host are more to a reader.
func briefHolder(l survey.Lock) string {
	if len(l.Holders) > 0 {
		first := l.Holders[0]
		if first.Who.PID = 0; first.Who.Program != "" || first.Who.Host != "" {
			l.Holders = []survey.Holder{first}
		}
	}
	return HolderOf(l)
}

// HeldOf says for how long a lock has been held by the one who has held it longest.
func HeldOf(l survey.Lock) string { return orNone(l.Longest()) }

// LeftOf says for how long a lock is held at most, unless that is renewed.
func LeftOf(l survey.Lock) string {
	if l.HolderCount == 0 {
		return None
	}
	return orNone(l.Left())
}

func orNone(d time.Duration) string {
	if d == 0 {
		return None
	}
	return Span(d)
}

// WaitingOf says how many wait for a lock, as far as that is known.
func WaitingOf(l survey.Lock) string {
	if l.Waiting == 0 {
		return None
	}
	return strconv.Itoa(l.Waiting)
}

// TooLong says how many names were left out by [survey.Scan].
func TooLong(names int) string {
	return fmt.Sprintf("left out: %s of more than %d bytes, which no lock has", layout.Count(names, "name"), protocol.MaxName)
}

// JSON writes a value as one line, with all that a terminal obeys or hides in escapes of JSON: its own
// rules ask for that below U+0020 only.
func JSON(w io.Writer, value any) error { return writeJSON(w, value, "") }

// JSONLines is [JSON] in lines, each field in one of its own.
func JSONLines(w io.Writer, value any) error { return writeJSON(w, value, "  ") }

func writeJSON(w io.Writer, value any, indent string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(w, new(visible.Reader).Map(text.String(), escapeJSON))
	return err
}

// escapeJSON writes a hidden character as in a string of JSON. A line break is none of a string.
func escapeJSON(character string) string {
	r, _ := utf8.DecodeRuneInString(character)
	switch {
	case r == '\n':
		return character
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
