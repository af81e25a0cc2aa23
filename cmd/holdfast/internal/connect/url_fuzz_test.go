package connect

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// FuzzURL: what is accepted can be dialled, and is shown without its password and without what a
// terminal obeys; what is not says why in one line.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{
		"", "redis://h", "redis://h:1/2", "redis://u:p@a:1,b:2/", "rediss://h?skip_verify=true", "redis+sentinel://a,b:2/m/3", "unix:///run/a%20b.sock?db=2",
		"unix://u:p%2F@/run/s", "redis://[::1]", "redis://[fe80::1%25eth0]:1", "redis://h?db=65536", "redis://h:65536", "redis://h:0", "valkeys+sentinel://h/m",
		"redis://a,,b", "redis://h/%31", "redis+sentinel://h/\x1b[m", "unix:///a%1b[m", "redis://h?cluster=1&cluster=0", "redis://%1b:x@h",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		target, err := Options{URL: text, InsecureSkipVerify: true}.Resolve()
		if err != nil {
			if said := err.Error(); said == "" || strings.ContainsFunc(said, unicode.IsControl) {
				t.Errorf("%q: %q", text, said)
			}
			return
		}
		for _, host := range target.hosts {
			if target.socket {
				if !filepath.IsAbs(host) || strings.Contains(host, "\x00") {
					t.Errorf("%q: the socket %q", text, host)
				}
				continue
			}
			name, port, err := net.SplitHostPort(host)
			if n, failed := strconv.Atoi(port); err != nil || failed != nil || n < 1 || n > 65535 || name == "" {
				t.Errorf("%q: the host %q: %v", text, host, err)
			}
		}
		switch {
		case len(target.hosts) == 0, target.db < 0:
			t.Errorf("%q: %+v", text, target.address)
		case target.cluster && (target.socket || target.master != ""), target.skipVerify && !target.tls:
			t.Errorf("%q says two things: %+v", text, target.address)
		}
		if shown := target.String(); strings.ContainsFunc(shown, unicode.IsControl) ||
			len(target.password) > 8 && strings.Contains(shown, target.password) && !strings.Contains(strings.Join(target.hosts, ",")+target.master+target.user, target.password) {
			t.Errorf("%q is shown as %q", text, shown)
		}
	})
}
