package doctor

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/goredisdriver"
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
		if (c.node == nil) == (c.all == nil) {
			t.Errorf("%s has not one function", c.ID)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", c.ID, c.Worst, c.Asks)
	}
	if !strings.Contains(document(t, "docs/cli.md"), table.String()+"\n") {
		t.Errorf("docs/cli.md should have%s", &table)
	}
}

// TestKindsAreDocumented compares the kinds' rights with the tables in docs/acl.md, which are tested.
func TestKindsAreDocumented(t *testing.T) {
	t.Parallel()
	const header = "| kind | commands | keys | channels |\n|---|---|---|---|\n"
	var rows, want strings.Builder
	tables := strings.Split(document(t, "docs/acl.md"), header)[1:]
	for _, table := range tables {
		text, _, _ := strings.Cut(table, "\n\n")
		rows.WriteString(text + "\n")
	}
	code := func(list string) string { return "`" + strings.Join(words(list), "` `") + "`" }
	for _, k := range kinds {
		fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", k.name, code(k.commands), code(k.keys), code(k.channels))
	}
	if rows.String() != want.String() {
		t.Errorf("docs/acl.md has\n%swant\n%s", &rows, &want)
	}
	for _, of := range []struct {
		k    kind
		head string
	}{{line, "single server"}, {lineSharded, "cluster with sharded messages"}} {
		commands := of.k.commands
		if of.k.channels == lineSharded.channels {
			commands = forSharded.Replace(commands)
		}
		row := fmt.Sprintf("| %s | %s | %s | %s |\n", of.head, strings.ReplaceAll(code(commands), "|", `\|`), code(of.k.keys), code(of.k.channels))
		if !strings.Contains(document(t, "docs/acl.md"), row) {
			t.Errorf("docs/acl.md should have %s", row)
		}
	}
	for _, k := range append(slices.Clone(kinds), line) {
		for _, command := range words(k.commands) {
			_, tried := harmless[command]
			if _, tried2 := undone[command]; !tried && !tried2 && command != "EVAL" && !strings.HasSuffix(command, "SUBSCRIBE") {
				t.Errorf("%s is not tried", command)
			}
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

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		info     string
		severity Severity
		says     string
	}{
		{"redis_version:7.0.15", Pass, "Redis 7.0.15; 7.0.15 was tested"},
		{"redis_version:7.4.2", Pass, "not tested itself"},
		{"redis_version:6.0.5", Failure, "lacks commands"},
		{"redis_version:5.0.14", Failure, "lacks commands"},
		{"redis_version:9.0.0", Warning, "is newer than those that were tested: 6.0.16 7.0.15 8.0.2"},
		{"redis_version:7.2.4\nvalkey_version:8.1.3", Pass, "Valkey 8.1.3; 8.1.1 was tested"},
		{"redis_version:7.2.4\nvalkey_version:9.0.0", Warning, "Valkey 9.0.0 is newer"},
		{"redis_version:7.4.0\ndragonfly_version:df-v1.30.0", Warning, "not tested at all"},
		{"", Unknown, "INFO has no redis_version"},
	} {
		got := version(&node{info: fields(c.info)})
		if len(got) != 1 || got[0].Severity != c.severity || !strings.Contains(got[0].Found, c.says) {
			t.Errorf("%q: %+v", c.info, got)
		}
	}
}
