package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
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
