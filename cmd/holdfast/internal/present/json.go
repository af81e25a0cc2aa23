package present

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// JSON writes a value as one line, with all that a terminal obeys or hides in escapes of JSON: its own
// rules ask for that below U+0020 only.
func JSON(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	var safe bytes.Buffer
	for _, r := range text.String() {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			safe.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&safe, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&safe, `\u%04x`, r)
		}
	}
	_, err := w.Write(safe.Bytes())
	return err
}
