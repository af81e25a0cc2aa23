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
		"holdfast (devel), go": {},
	} {
		if got := describe(&info, "", "", ""); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	linked := describe(&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: vcs}, "v1.2.4", "4567cdef", "2026-05-06T07:08:09Z")
	if want := "holdfast v1.2.4, commit 4567cdef, date 2026-05-06T07:08:09Z, go"; !strings.HasPrefix(linked, want) {
		t.Errorf("%q, want %q", linked, want)
	}
}
