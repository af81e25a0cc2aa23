package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	barWidth = 20
	barEvery = 100 * time.Millisecond
)

// bar is a line of a terminal that shows how far something is. The zero bar was not drawn yet.
type bar struct {
	out   io.Writer
	drawn time.Time
}

// draw shows that done of total is done, unless it has shown something a moment ago. There is nobody to be told of a failure.
func (b *bar) draw(label string, done, total int64) {
	if time.Since(b.drawn) < barEvery {
		return
	}
	b.drawn = time.Now()
	share := min(1, float64(done)/float64(max(total, 1)))
	filled := int(share * barWidth)
	_, _ = fmt.Fprintf(b.out, "\r%s %3.0f%% [%s%s]\x1b[K", label, 100*share, strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled))
}

// wipe takes it off the screen, and is called once.
func (b *bar) wipe() {
	if !b.drawn.IsZero() {
		_, _ = fmt.Fprint(b.out, "\r\x1b[K")
	}
}
