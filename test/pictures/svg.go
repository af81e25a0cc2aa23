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
		x := float64(margin)
		for _, r := range runs {
			wide := float64(utf8.RuneCountInString(r.text)) * cellWidth // no command writes wide characters
			if r.reverse != "" {
				fmt.Fprintf(&out, `<rect class="back" x="%s" y="%d" width="%s" height="%d"/>`+"\n", pixels(x), margin+n*lineHeight, pixels(wide), lineHeight)
			}
			if strings.TrimSpace(r.text) != "" {
				fmt.Fprintf(&text, `<tspan x="%s" textLength="%s"%s>%s</tspan>`, pixels(x), pixels(wide), r.class(), escaped(r.text))
			}
			x += wide
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

// style is how text is written: the classes of it. Where several set a colour, the last of the sheet does.
type style struct{ reverse, colour, faint, bold string }

// run is text in one style.
type run struct {
	style

	text string
}

func (s *style) class() string {
	classes := strings.Fields(s.reverse + " " + s.colour + " " + s.faint + " " + s.bold)
	if len(classes) == 0 {
		return ""
	}
	return ` class="` + strings.Join(classes, " ") + `"`
}

// graphic is an escape sequence as tmux writes them: it has them all made into such that set the style.
var graphic = regexp.MustCompile("\x1b\\[([0-9;]*)m|[\x0e\x0f]")

// read takes a line apart. What a line sets holds for the next, too.
func (s *style) read(line string) (runs []run, err error) {
	sequences := graphic.FindAllStringSubmatch(line, -1)
	for i, text := range graphic.Split(line, -1) {
		if i > 0 && sequences[i-1][0][0] == '\x1b' {
			if err := s.set(sequences[i-1][1]); err != nil {
				return nil, err
			}
		}
		if strings.ContainsRune(text, '\x1b') {
			return nil, fmt.Errorf("an escape sequence that sets no style: %q", text)
		}
		if text != "" {
			runs = append(runs, run{*s, text})
		}
	}
	return runs, nil
}

// set changes the style by the numbers of a sequence.
func (s *style) set(numbers string) error {
	for text := range strings.SplitSeq(numbers, ";") {
		n, err := strconv.Atoi("0" + text) // no number is 0
		switch {
		case err != nil:
			return err
		case n == 0:
			*s = style{}
		case n == 1:
			s.bold = "bold"
		case n == 2:
			s.faint = "faint"
		case n == 7:
			s.reverse = "reverse"
		case n == 22:
			s.bold, s.faint = "", ""
		case n == 27:
			s.reverse = ""
		case n == 39:
			s.colour = ""
		case n == 49: // no background
		case n == 90:
			s.colour = "c7"
		case n >= 31 && n <= 37, n >= 91 && n <= 97:
			s.colour = fmt.Sprint("c", n%10)
		default:
			return fmt.Errorf("the pictures have no style %d, of %q", n, numbers)
		}
	}
	return nil
}
