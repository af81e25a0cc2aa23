package reports

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/bench/workloads"
)

// table is a table of plain text. Its first column is text, the others are figures.
type table struct{ rows [][]string }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// gap is between two columns.
const gap = "  "

// String aligns the columns. The first row is the head.
func (t *table) String() string {
	var b strings.Builder
	widths := t.widths()
	rows := slices.Insert(slices.Clone(t.rows), 1, rulers(widths))
	for _, row := range rows {
		var line strings.Builder
		for column, text := range row {
			fill := strings.Repeat(" ", widths[column]-utf8.RuneCountInString(text))
			if column == 0 {
				line.WriteString(text + fill)
			} else {
				line.WriteString(gap + fill + text)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// markdown is the table in Markdown.
func (t *table) markdown() string {
	var b strings.Builder
	for i, row := range t.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(row)-1) + "\n")
		}
	}
	return b.String()
}

func (t *table) widths() []int {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for column, text := range row {
			widths[column] = max(widths[column], utf8.RuneCountInString(text))
		}
	}
	return widths
}

func rulers(widths []int) []string {
	row := make([]string, len(widths))
	for column, width := range widths {
		row[column] = strings.Repeat("-", width)
	}
	return row
}

// none stands where there is no figure.
const none = "–"

// grouped writes a whole number, with its thousands apart.
func grouped(n int) string {
	s := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, s = s[:1], s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// decimal writes a number with so many digits behind the point, none if it is zero.
func decimal(f float64, digits int) string {
	if f == 0 {
		return none
	}
	return strconv.FormatFloat(f, 'f', digits, 64)
}

// short writes a number of any size with two or three digits that matter.
func short(f float64) string {
	if math.Abs(f) < 10 {
		return decimal(f, 1)
	}
	return whole(f)
}

// brief writes a time with three digits at most: 85µs, 1.69ms, 468ms.
func brief(d time.Duration) string {
	if d == 0 {
		return none
	}
	unit := time.Nanosecond // of the last digit
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// wrap breaks a text of words into lines that fit into a terminal. The lines after
// the first are indented.
func wrap(text, indent string) string {
	const width = 116
	column := 0
	var b strings.Builder
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+length > width:
			b.WriteString("\n" + indent)
			column = utf8.RuneCountInString(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String()
}

// rangeOf writes the lowest and the highest.
func rangeOf(s workloads.Spread[float64], write func(float64) string) string {
	return fmt.Sprintf("%s (%s–%s)", write(s.Median), write(s.Low), write(s.High))
}

func whole(f float64) string      { return grouped(int(math.Round(f))) }
func hundredths(f float64) string { return decimal(f, 2) }
func tenths(f float64) string     { return decimal(f, 1) }

// sized writes a number with as many digits as it needs to be told from another.
func sized(f float64) string {
	switch {
	case math.Abs(f) >= 1000:
		return whole(f)
	case math.Abs(f) >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

// percent writes a share of a core.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) + " %" }
