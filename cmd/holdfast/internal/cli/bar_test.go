package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/printer"
)

func TestBar(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b := bar{out: printer.New(&out)}
	b.wipe()
	if out.Len() > 0 {
		t.Errorf("what was not drawn is wiped: %q", &out)
	}
	for _, c := range []struct {
		done, total int64
		want        string
	}{
		{0, 0, "\rkeys   0% [                    ]\x1b[K"}, {5, 10, "\rkeys  50% [==========          ]\x1b[K"}, {11, 10, "\rkeys 100% [====================]\x1b[K"},
	} {
		out.Reset()
		b.drawn = time.Time{}
		b.draw("keys", c.done, c.total)
		b.draw("keys", 1, 10) // too soon
		if out.String() != c.want {
			t.Errorf("%d of %d: %q", c.done, c.total, &out)
		}
	}
	out.Reset()
	if b.wipe(); out.String() != "\r\x1b[K" {
		t.Errorf("wiped by %q", &out)
	}
}
