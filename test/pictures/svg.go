//go:build unix

package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The measures of a picture, in pixels.
const (
	cellWidth  = 8.4
	lineHeight = 18
	fontSize   = 14
	margin     = 14
)

// sheet has the colours for light and dark surroundings. Contrast is 4.5 to 1 at least.
const sheet = `
rect.page{fill:#fff;stroke:#d0d7de}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328;white-space:pre}
.bold{font-weight:bold}.faint{fill:#59636e}
.c1{fill:#c21c2c}.c2{fill:#116329}.c3{fill:#7d4e00}.c4{fill:#0550ae}.c5{fill:#7b3fc4}.c6{fill:#14626b}.c7{fill:#59636e}
rect.back{fill:#1f2328}.reverse{fill:#fff}
@media(prefers-color-scheme:dark){
rect.page{fill:#0d1117;stroke:#3d444d}text{fill:#e6edf3}.faint{fill:#9198a1}
.c1{fill:#ff8b85}.c2{fill:#56d364}.c3{fill:#e3b341}.c4{fill:#79c0ff}.c5{fill:#d2a8ff}.c6{fill:#56d4dd}.c7{fill:#9198a1}
rect.back{fill:#e6edf3}.reverse{fill:#0d1117}
}`

// draw writes a screen as SVG.
func draw(screen string, columns int, about string) ([]byte, error) {
	lines := strings.Split(screen, "\n")
	width, height := float64(columns)*cellWidth+2*margin, len(lines)*lineHeight+2*margin
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %d" width="%s" height="%d" role="img"><title>%s</title><style>%s</style>`+"\n",
		pixels(width), height, pixels(width), height, escaped(about), sheet)
	fmt.Fprintf(&out, `<rect class="page" x=".5" y=".5" width="%s" height="%d" rx="6"/>`+"\n", pixels(width-1), height-1)
	var s style
	for n, line := range lines {
		runs, err := s.read(line)
		if err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", n+1, line, err)
		}
		var text strings.Builder
		column := 0
		for _, r := range runs {
			wide := utf8.RuneCountInString(r.text) // no command writes wide characters
			if r.reverse {
				fmt.Fprintf(&out, `<rect class="back" x="%s" y="%d" width="%s" height="%d"/>`+"\n",
					pixels(margin+float64(column)*cellWidth), margin+n*lineHeight, pixels(float64(wide)*cellWidth), lineHeight)
			}
			if strings.TrimSpace(r.text) != "" {
				fmt.Fprintf(&text, `<tspan x="%s" textLength="%s"%s>%s</tspan>`,
					pixels(margin+float64(column)*cellWidth), pixels(float64(wide)*cellWidth), r.class(), escaped(r.text))
			}
			column += wide
		}
		if text.Len() > 0 {
			fmt.Fprintf(&out, `<text y="%d" xml:space="preserve">%s</text>`+"\n", margin+n*lineHeight+fontSize, text.String())
		}
	}
	out.WriteString("</svg>\n")
	return []byte(out.String()), nil
}

// pixels writes a measure with one decimal at most, as all of them have.
func pixels(f float64) string { return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) }

func escaped(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a strings.Builder takes all
	return out.String()
}

// style is how text is written.
type style struct {
	bold, faint, reverse bool
	colour               int // 0: none, 1 to 7
}

// run is text in one style.
type run struct {
	style

	text string
}

func (s *style) class() string {
	var classes []string
	switch {
	case s.reverse:
		classes = append(classes, "reverse")
	case s.colour > 0:
		classes = append(classes, "c"+strconv.Itoa(s.colour))
	case s.faint:
		classes = append(classes, "faint")
	}
	if s.bold {
		classes = append(classes, "bold")
	}
	if len(classes) == 0 {
		return ""
	}
	return ` class="` + strings.Join(classes, " ") + `"`
}

// graphic is an escape sequence as tmux writes them: it has them all made into such that set the style.
var graphic = regexp.MustCompile("\x1b\\[([0-9;]*)m|[\x0e\x0f]")

// read takes a line apart. What a line sets holds for the next, too.
func (s *style) read(line string) (runs []run, err error) {
	for line != "" {
		at := graphic.FindStringSubmatchIndex(line)
		text := line
		if at != nil {
			text = line[:at[0]]
		}
		if strings.ContainsRune(text, '\x1b') {
			return nil, fmt.Errorf("an escape sequence that sets no style: %q", text)
		}
		if text != "" {
			runs = append(runs, run{*s, text})
		}
		if at == nil {
			return runs, nil
		}
		if at[2] >= 0 {
			if err := s.set(line[at[2]:at[3]]); err != nil {
				return nil, err
			}
		}
		line = line[at[1]:]
	}
	return runs, nil
}

// switches are what the numbers of a sequence do that are no colours.
var switches = map[int]func(*style){
	0:  func(s *style) { *s = style{} },
	1:  func(s *style) { s.bold = true },
	2:  func(s *style) { s.faint = true },
	7:  func(s *style) { s.reverse = true },
	22: func(s *style) { s.bold, s.faint = false, false },
	27: func(s *style) { s.reverse = false },
	39: func(s *style) { s.colour = 0 },
	49: func(*style) {}, // no background
	90: func(s *style) { s.colour = 7 },
}

// set changes the style by the numbers of a sequence.
func (s *style) set(numbers string) error {
	for text := range strings.SplitSeq(numbers, ";") {
		n, err := strconv.Atoi(orZero(text))
		if err != nil {
			return err
		}
		change, found := switches[n]
		switch {
		case found:
			change(s)
		case n >= 31 && n <= 37:
			s.colour = n - 30
		case n >= 91 && n <= 97:
			s.colour = n - 90
		default:
			return fmt.Errorf("the pictures have no style %d, of %q", n, numbers)
		}
	}
	return nil
}

func orZero(text string) string {
	if text == "" {
		return "0"
	}
	return text
}
