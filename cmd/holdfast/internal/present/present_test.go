package present

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

// TestSafe lets nothing through that a terminal obeys, or that hides what stands there.
func TestSafe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"orders:42": "orders:42", "Größe 42, 🔒": "Größe 42, 🔒", `back\slash "quoted"`: `back\slash "quoted"`, "": "",
		"\x1b[31mred": `\x1b[31mred`, "a\nb\tc\r": `a\nb\tc\r`, "\xff\xfe": `\xff\xfe`, "\u009b2J": `\u009b2J`, "\u202egnp.exe": `\u202egnp.exe`,
		"zero\u200bwidth": `zero\u200bwidth`, "no\u00a0break": `no\u00a0break`, "\x7f": `\x7f`, "\\\x00": `\\\x00`,
		"nothing\u3164\u034f\ufe00": `nothing\u3164\u034f\ufe00`,
	} {
		if got := Safe(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestJSON writes what reads back as it was, and is harmless.
func TestJSON(t *testing.T) {
	t.Parallel()
	name := "a<b>\x1b[31m\x7f\u009b2J\u202e\U000e0001\ufe00\u3164 🔒\n"
	var out strings.Builder
	if err := JSON(&out, map[string]string{"name": name}); err != nil {
		t.Fatal(err)
	}
	if want := `{"name":"a<b>\u001b[31m\u007f\u009b2J\u202e\udb40\udc01\ufe00\u3164 🔒\n"}` + "\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back["name"] != name {
		t.Errorf("%q, %v", back["name"], err)
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"orders:42", 9, "orders:42"},
		{"orders:42", 8, "orde…:42"},
		{"orders:42", 3, "o…2"},
		{"orders:42", 2, "o…"},
		{"orders:42", 1, "…"},
		{"orders:42", 0, ""},
		{"", 0, ""},
		{"🔒🔒🔒🔒", 8, "🔒🔒🔒🔒"},
		{"orders:42", -1, ""},
	} {
		if got := Fit(c.text, c.width); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
	for width := range 9 {
		if got := Fit("🔒🔒🔒🔒", width); ansi.StringWidth(got) > width {
			t.Errorf("%q is wider than %d", got, width)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 40 * time.Millisecond: "0s", 1250 * time.Millisecond: "1.2s", 10 * time.Second: "10s", 59999 * time.Millisecond: "59s",
		192 * time.Second: "3m12s", time.Hour: "1h00m", 26 * time.Hour: "1d02h", 900 * 24 * time.Hour: "900d00h", -time.Second: "0s", holdfast.NoExpiry: "no end",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// some are locks of all sorts.
func some() []survey.Lock {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	who := holdfast.Identity{Program: "billing", Host: "web-3.example.com", PID: 4711}
	held := survey.Holder{Owner: "99f17b91-c6cc-889e-88f6-8265bee545cf:1", Who: who, Count: 1, Since: at.Add(-192 * time.Second), TTL: 27 * time.Second}
	java := survey.Holder{Owner: "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57", Mode: survey.Reads, Count: 2, TTL: holdfast.NoExpiry}
	return []survey.Lock{
		{Name: "orders:" + strings.Repeat("x", 100) + ":42", Kind: survey.Mutex, State: survey.Held, Ours: true, At: at, Holders: []survey.Holder{held}, HolderCount: 1, Line: 1, Waiting: 12, Waiters: []survey.Waiter{{Owner: held.Owner, Who: who, Since: at.Add(-75 * time.Second)}}},
		{Name: "\x1b[2Jreports", Kind: survey.RW, State: survey.Held, Ours: true, Mode: survey.Reads, At: at, Holders: []survey.Holder{java}, HolderCount: 3},
		{Name: "fair", Kind: survey.Fair, State: survey.Free, Ours: true, At: at, Line: 2, Waiting: 2, Waiters: []survey.Waiter{{Owner: java.Owner}, {Owner: held.Owner, Who: who, Silent: true}}},
		{Name: "sem", Kind: survey.Permits, State: survey.Held, Ours: true, At: at, Holders: []survey.Holder{held}, HolderCount: 1, Taken: 1, Available: 2, Total: 3},
		{Name: "old", Kind: survey.Semaphore, State: survey.Exhausted, Ours: true, At: at, Waiting: 1},
		{Name: "latch", Kind: survey.Latch, State: survey.Closed, Ours: true, At: at, Count: 4},
		{Name: "hits", Kind: survey.Number, State: survey.Unknown, At: at, Count: 1234567},
	}
}

// TestTable keeps to its width, and says what there is room for.
func TestTable(t *testing.T) {
	t.Parallel()
	locks := some()
	for _, c := range []struct {
		width int
		head  []string
	}{
		{0, []string{"NAME", "KIND", "STATE", "HOLDER", "HELD", "LEFT", "WAIT"}},
		{200, []string{"NAME", "KIND", "STATE", "HOLDER", "HELD", "LEFT", "WAIT"}},
		{80, []string{"NAME", "KIND", "STATE", "HOLDER", "HELD", "LEFT", "WAIT"}},
		{44, []string{"NAME", "STATE", "HELD", "WAIT"}},
	} {
		table := NewTable(locks, c.width)
		if got := strings.Fields(table.Head()); strings.Join(got, " ") != strings.Join(c.head, " ") {
			t.Errorf("%d: %q", c.width, got)
		}
		for _, l := range locks {
			line := table.Line(l)
			if c.width > 0 && ansi.StringWidth(line) > c.width || strings.ContainsAny(line, "\x1b\n") {
				t.Errorf("%d: %d wide: %q", c.width, ansi.StringWidth(line), line)
			}
			if c.width == 0 && !strings.Contains(line, Safe(l.Name)) {
				t.Errorf("cut: %q", line)
			}
		}
	}
	if line := NewTable(locks, 80).Line(locks[0]); !strings.HasPrefix(line, "orders:") || !strings.Contains(line, ":42") || !strings.Contains(line, "billing") ||
		!strings.Contains(line, "3m12s") || !strings.HasSuffix(line, "12") {
		t.Errorf("%q", line)
	}
}

// TestTableOfWideTexts cuts names and holders to 200 columns where there is no terminal, so that one name does not make every line as wide.
func TestTableOfWideTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\x1b", 1024)
	locks := append(some(), survey.Lock{Name: long, Kind: survey.Mutex, State: survey.Held, Holders: []survey.Holder{{Owner: long}}, HolderCount: 3, Waiters: []survey.Waiter{{Owner: long}}, Waiting: 1, Line: 1})
	table := NewTable(locks, 0)
	for _, l := range locks {
		if line := table.Line(l); ansi.StringWidth(line) > 2*widest+60 || strings.Contains(line, "…") != (l.Name == long) {
			t.Errorf("%d wide: %q", ansi.StringWidth(line), line)
		}
	}
	for _, line := range Details(locks[len(locks)-1], 0) {
		if ansi.StringWidth(line) > widest+30 {
			t.Errorf("%d wide: %q", ansi.StringWidth(line), line)
		}
	}
}

// TestTableHolders leaves the number of the process out before it cuts the program and the host.
func TestTableHolders(t *testing.T) {
	t.Parallel()
	held := some()[0].Holders[0]
	held.Who.Program = "holdfast run report"
	held.Who.Host = "web-3"
	lock := survey.Lock{Name: "conversions", Kind: survey.Permits, At: some()[0].At, Holders: []survey.Holder{held}, HolderCount: 2, Taken: 2, Total: 3}
	for width, want := range map[int]string{0: " holdfast run report@web-3 pid 4711 +1  ", 80: " holdfast run report@web-3 +1  ", 60: "…"} {
		if line := NewTable([]survey.Lock{lock}, width).Line(lock); !strings.Contains(line, want) || width == 60 && strings.Contains(line, "pid") {
			t.Errorf("%d: %q", width, line)
		}
	}
}

// TestDetailsWrap breaks between words, and cuts nothing.
func TestDetailsWrap(t *testing.T) {
	t.Parallel()
	for _, l := range some() {
		all := strings.Fields(strings.Join(Details(l, 0), " "))
		lines := Details(l, 44)
		if got := strings.Fields(strings.Join(lines, " ")); strings.Join(got, " ") != strings.Join(all, " ") {
			t.Errorf("%q, want %q", got, all)
		}
		for _, line := range lines {
			if ansi.StringWidth(line) > 44 && strings.Contains(strings.TrimSpace(line[titles:]), " ") {
				t.Errorf("%d wide: %q", ansi.StringWidth(line), line)
			}
		}
	}
}

func TestSort(t *testing.T) {
	t.Parallel()
	for order, first := range map[Order]string{ByName: "\x1b[2Jreports", ByHeld: some()[0].Name, ByLeft: some()[0].Name, ByWaiting: some()[0].Name} {
		locks := some()
		order.Sort(locks)
		if locks[0].Name != first {
			t.Errorf("%s: %q comes first", order, locks[0].Name)
		}
	}
}

// TestDetails says all that there is to say, and nothing that a terminal obeys.
func TestDetails(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, l := range some() {
		for _, line := range Details(l, 0) {
			all.WriteString(line + "\n")
		}
	}
	for _, want := range []string{
		"held by  billing@web-3.example.com pid 4711\n         99f17b91-c6cc-889e-88f6-8265bee545cf:1\n         for 3m12s, 27s more unless renewed\n",
		"name     \\x1b[2Jreports\nkind     read-write lock\nstate    held for reading\n", "reads, without an end, 2 times\n         and 2 more\n",
		"waiting  2 in line\n         1. 0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57\n         2. billing@web-3.example.com pid 4711, not heard of\n",
		"waiting  1 in line, and 11 more listen\n         1. billing@web-3.example.com pid 4711, has waited 1m15s\n",
		"1 of 3 permits are held, 2 available\n", "0 permits available; Redis does not say who has the others\nwaiting  1 process listens\n",
		"closed: 4 to go\n", "value    1234567\nstate    not known: it may be a semaphore, with leases or without, or a latch, or no lock at all\n",
	} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no %q in\n%s", want, all.String())
		}
	}
	if strings.Contains(all.String(), "\x1b") {
		t.Error("an escape")
	}
}
