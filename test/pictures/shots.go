//go:build unix

package main

// prompt is the one behind the output.
const prompt = `\n\$\s*$`

// all are the pictures, in the order in which they are taken.
var all = []shot{
	{name: "run", about: "holdfast run", steps: []step{
		{types: "holdfast run greeting -- echo hello", until: `\nhello.*` + prompt},
		{types: "holdfast run --wait 2s nightly -- ./report.sh; echo exit code $?", until: `exit code 75` + prompt},
		{types: "holdfast run -v --kind permits conversions -- echo converted", until: `\nconverted.*` + prompt},
	}},
	{name: "ls", about: "holdfast ls", steps: []step{{types: "holdfast ls", until: `warehouse.*` + prompt}, {types: "holdfast ls --sort waiting 'inv*'", until: `inv\*.*invoices.*` + prompt}}},
	{name: "ls-narrow", about: "holdfast ls on a narrow terminal", wide: 44, high: 30, steps: []step{{types: "holdfast ls", until: `warehouse.*` + prompt}}},
	{name: "show", about: "holdfast show", steps: []step{{types: "holdfast show invoices", until: `expires.*` + prompt}, {types: "holdfast show orders:42", until: `orders:42.*expires.*` + prompt}}},
	{name: "show-narrow", about: "holdfast show on a narrow terminal", wide: 44, high: 30, steps: []step{{types: "holdfast show warehouse", until: `expires.*` + prompt}}},
	{name: "watch", about: "holdfast watch: the table", steps: []step{{types: "holdfast watch", until: `warehouse.*q quit`}, {key: "Down", until: `> invoices`}}},
	{name: "watch-lock", about: "holdfast watch: one lock", steps: []step{{types: "holdfast watch", until: `warehouse.*q quit`}, {key: "End", until: `> warehouse`}, {key: "Enter", until: `esc back`}}},
	{name: "watch-unlock", about: "holdfast watch: about to take a lock away", wide: 44, high: 30, steps: []step{
		{types: "holdfast watch", until: `warehouse.*q quit`}, {key: "Down", until: `> invoices`}, {key: "u", until: `y take it away`},
	}},
	{name: "watch-without-colour", about: "holdfast watch with NO_COLOR", wide: 44, high: 30, steps: []step{{types: "NO_COLOR=1 holdfast watch", until: `warehouse.*q quit`}}},
	{name: "wait", about: "holdfast wait", steps: []step{{types: "holdfast wait migration && echo go", until: `\ngo` + prompt}, {types: "holdfast wait --wait 2s nightly; echo exit code $?", until: `exit code 75` + prompt}}},
	{name: "unlock", about: "holdfast unlock", steps: []step{
		{types: "holdfast unlock --force nightly", until: `\[y/N\]`},
		{types: "n", until: `nothing was done` + prompt},
		{types: "holdfast unlock --force orders:42", until: `orders:42.*\[y/N\]`},
		{types: "y", until: `was taken away` + prompt},
	}},
	{name: "bench", about: "holdfast bench", high: 48, steps: []step{{types: "holdfast bench --duration 2s", until: `without hand-over.*wait below.*` + prompt}}},
	{name: "doctor", about: "holdfast doctor", high: 60, before: unfit, steps: []step{{types: "holdfast doctor", until: `not known.*` + prompt}}},
	{name: "errors", about: "errors", steps: []step{
		{types: "holdfast show nothing; echo exit code $?", until: `exit code 66` + prompt},
		{types: "holdfast ls --redis redis://localhost:1; echo exit code $?", until: `exit code 69` + prompt},
		{types: "holdfast run nightly ./report.sh; echo exit code $?", until: `exit code 64` + prompt},
		{types: "holdfast unlok nightly", until: `did you mean.*` + prompt},
	}},
	{name: "help", about: "holdfast help", high: 40, steps: []step{{types: "holdfast help | head -30", until: `version.*` + prompt}}},
	{name: "help-of-one", about: "holdfast help unlock", high: 40, steps: []step{{types: "holdfast unlock --help", until: `HOLDFAST_REDIS.*` + prompt}}},
	{name: "completion", about: "completion in bash", steps: []step{
		{types: "source <(holdfast completion bash)", until: `bash\).*` + prompt},
		{types: "clear", until: `\A\$\s*\z`},
		{key: "holdfast ls --", until: `ls --`},
		{key: "Tab", until: `.`},
		{key: "Tab", until: `--sort`},
	}},
	{name: "man", about: "the manual page", steps: []step{{types: "holdfast man | MANWIDTH=80 man -l - | head -20", until: `NAME.*COMMANDS.*` + prompt}}},
	{name: "version", about: "holdfast version", steps: []step{{types: "holdfast version", until: `\nholdfast .*` + prompt}}},
	// It is ended in the middle, so its locks are there for a while.
	{name: "demo", about: "holdfast demo: five workers take turns", steps: []step{{types: "holdfast demo", until: `inside the lock +[2-9]\d hand-overs`}}},
}
