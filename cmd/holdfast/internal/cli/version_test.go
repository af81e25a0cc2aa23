package cli

import (
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// TestVersion describes builds of a release, of a repository, and of neither.
func TestVersion(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "false"},
	}
	changed := append(slices.Clone(vcs[:2]), debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for want, info := range map[string]debug.BuildInfo{
		"holdfast v1.2.3, commit 0123abcd, date 2026-01-02T03:04:05Z, go":               {Main: debug.Module{Version: "v1.2.3"}, Settings: vcs},
		"holdfast (devel), commit 0123abcd with changes, date 2026-01-02T03:04:05Z, go": {Main: debug.Module{Version: "(devel)"}, Settings: changed},
		"holdfast (devel), commit unknown, date unknown, go":                            {},
	} {
		if got := describe(&info); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
