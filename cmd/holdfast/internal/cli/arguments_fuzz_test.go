package cli

import (
	"slices"
	"strings"
	"testing"
)

// FuzzArguments: whatever stands on the command line, it is refused, or understood in one way: what is run is
// what follows a "--", every word of it and nothing else, or the words for a shell. No password is said.
func FuzzArguments(f *testing.F) {
	const secret = "s3cr3tW0rd"
	for _, seed := range []string{
		"run\nn\n--\nc", "run\n--\nn\n--\nc\n-x", "run\n-n\n--\nc", "run\nn\nc", "run\nn\n-c\nls | wc", "run\nn\n-c\nls\n--\nc", "run\n--try\nn\n--\nc\n--\nd",
		"run\n--lease\n1s\nn\n--\n--", "run\n--\n--\n--", "run\n--wait=-1s\nn\n--\nc", "run\n--kind\nread\nn\n--", "run", "--", "", "show\n--\n-x", "show\nx\n--\ny", "ls\n--\n-*",
		"wait\n--redis\nredis://u:" + secret + "@h\nx", "run\nredis://u:" + secret + "@h\n--\nc", "run\nn\nredis://:" + secret + "@h", "--redis=redis://u:" + secret + "@h\nrun\n--lease\nx",
		"ls\n--redis://u:" + secret + "@h?db=1", "ls\n--kind\nmutex,redis://u:" + secret + "@h", "ls\n--held=redis://:" + secret + "@h", "run\n--wait=redis://\u2028:" + secret + "@h\nn\n--\nc",
		"run\n--permits\n9999999999999999999\nn\n--\nc", "run\n--json-status\n-1\nn\n--\nc", "unlock\nx\n--owner\ny", "ls\n--sort\nx", "bench\n--help", "help\nrun\n--\nx",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(helped); !ok {
					panic(r)
				}
			}
		}()
		parsed, redis, err := split(args).parse(nowhere())
		if err != nil {
			said := conceal(err.Error(), args, maybeURL)
			for _, arg := range args { // a word of its own may be a lock's name, and a password is not recognised in it
				if strings.Contains(arg, ":"+secret+"@") && strings.Contains(strings.ToLower(said), strings.ToLower(secret)) && !strings.Contains(strings.ReplaceAll(text, ":"+secret+"@", ""), secret) {
					t.Errorf("%q: %q", args, said)
				}
			}
			return
		}
		_ = redis
		if parsed.Selected() == nil || parsed.Selected().Name != runName {
			return
		}
		run := parsed.Selected().Target.Addr().Interface().(*runCommand)
		at := len(args) - len(run.Command)
		switch {
		case !slices.Contains(args, run.Name):
			t.Errorf("%q: the name is %q", args, run.Name)
		case run.Shell != "":
			if !slices.Equal(run.Command, []string{"sh", "-c", run.Shell}) || slices.Contains(args, "--") {
				t.Errorf("%q runs %q", args, run.Command)
			}
		case len(run.Command) == 0 || at < 1 || args[at-1] != "--" || !slices.Equal(run.Command, args[at:]):
			t.Errorf("%q runs %q", args, run.Command)
		case slices.Index(args, "--") != at-1: // a name that begins with a - has a -- of its own before it
			if first := slices.Index(args, "--"); args[first+1] != run.Name || at-1 != first+2 {
				t.Errorf("%q: %q runs %q", args, run.Name, run.Command)
			}
		}
	})
}
