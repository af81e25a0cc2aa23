package doctor

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/rights"
)

func document(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testExam is one with clients and no nodes.
func testExam(t *testing.T, target *connect.Target) *exam {
	t.Helper()
	e := &exam{Config: Config{Target: target}, redis: target.Client(target.Dial)}
	var err error
	if e.locks, err = holdfast.New(goredisdriver.New(e.redis), holdfast.WithoutIdentity()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.locks.Close(); err != nil {
			t.Error(err)
		}
		_ = e.redis.Close()
	})
	return e
}

// TestChecksAreDocumented compares the checks with the table in docs/cli.md.
func TestChecksAreDocumented(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("\n\n| check | at worst | what it looks at |\n|---|---|---|\n")
	for _, c := range Checks {
		functions := 0
		for _, has := range []bool{c.node != nil, c.primary != nil, c.all != nil} {
			if has {
				functions++
			}
		}
		if functions != 1 {
			t.Errorf("%s has %d functions", c.ID, functions)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", c.ID, c.Worst, c.Asks)
	}
	if !strings.Contains(document(t, "docs/cli.md"), table.String()+"\n") {
		t.Errorf("docs/cli.md should have%s", &table)
	}
}

// TestAllIsTried has a way to try each command that a kind needs.
func TestAllIsTried(t *testing.T) {
	t.Parallel()
	needed := rights.Line()
	for _, k := range rights.Kinds() {
		needed = needed.And(k.Rights)
	}
	for _, command := range needed.Commands {
		_, tried := harmless[command]
		if _, tried2 := undone[command]; !tried && !tried2 && command != "EVAL" && !strings.HasSuffix(command, "SUBSCRIBE") {
			t.Errorf("%s is not tried", command)
		}
	}
}

// TestReleasesAreDocumented compares the versions with the table in README.md.
func TestReleasesAreDocumented(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(document(t, "README.md"), "| server | tested | what differs |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var rows []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		rows = append(rows, strings.TrimSpace(cells[1])+" "+strings.TrimSpace(cells[2]))
	}
	var want []string
	for _, r := range releases {
		want = append(want, fmt.Sprintf("%s %d.%d %s", r.product, r.major, r.minor, r.tested))
	}
	if strings.Join(rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("README.md has %q, want %q", rows, want)
	}
}
