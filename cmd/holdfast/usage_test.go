//go:build unix

package main

import (
	"bytes"
	"net"
	"strings"
	"testing"
)

// TestBadUsage calls the tool in ways that cannot work: exit code 64, one
// sentence on standard error, nothing on standard output, no credential, and
// no connection to Redis.
func TestBadUsage(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	touched := make(chan struct{})
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
			close(touched)
		}
	}()
	good := "redis://:s3cret@" + listener.Addr().String()
	short := t.TempDir() + "/token"
	write(t, short, "s3cret\n")
	weak := t.TempDir() + "/token"
	write(t, weak, strings.Repeat("ab", 20)+"\n")
	run := func(flags ...string) []string { return append(append([]string{"run"}, flags...), "job", "--", "true") }
	for name, c := range map[string]struct {
		url  string
		args []string
		says string
	}{
		"no command of ours":  {good, []string{"--redis", good}, "a command is missing"},
		"help of no command":  {good, []string{"help", "nosuch"}, "there is no command nosuch; see holdfast --help"},
		"dashes of no run":    {good, []string{"demo", "--", "fair"}, "only holdfast run takes a command"},
		"help of a typo":      {good, []string{"help", "rnu"}, `there is no command rnu; did you mean "run"? See holdfast --help`},
		"a typo":              {good, []string{"rnu", "job", "--", "true"}, `there is no command rnu; did you mean "run"? See holdfast --help`},
		"unknown command":     {good, []string{"walk"}, "there is no command walk"},
		"unknown flag":        {good, run("--lose"), "unknown flag --lose"},
		"flag after name":     {good, []string{"run", "job", "--bogus", "--", "true"}, "unknown flag --bogus"},
		"no name":             {good, []string{"run"}, "the name of the lock is missing: holdfast run [flags] <name> -- <command>"},
		"no name, an address": {good, []string{"run", "-cmail ops@example.com"}, "the name of the lock is missing"},
		"short flags, a url":  {good, []string{"ls", "-Xredis://u:s3cret@h"}, "unknown flag -X"},
		"short flag, a url":   {good, []string{"run", "-xredis://u:s3cret@h", "--", "true"}, "unknown flag -x"},
		"no command":          {good, []string{"run", "job"}, "there is no command to run: holdfast run [flags] <name> -- <command>"},
		"no command after":    {good, []string{"run", "job", "--"}, "there is no command to run"},
		"no dashes":           {good, []string{"run", "job", "ls", "-l"}, "the -- before the command is missing: holdfast run [flags] job -- ls …"},
		"no dashes, no flag":  {good, []string{"--redis", good, "run", "--try", "a b", "true"}, "is missing: holdfast run [flags] 'a b' -- true …"},
		"no dashes, a url":    {good, []string{"run", "job", "redis://u:s3cret'@h", "-l"}, "-- before the command is missing"},
		"two names":           {good, []string{"run", "a", "b", "--", "true"}, "b is left over"},
		"shell and command":   {good, []string{"run", "job", "-c", "true", "--", "true"}, "exclude each other"},
		"shell of words":      {good, []string{"run", "job", "-c", "echo", "s"}, "quotes around all of its words; s is left over"},
		"empty shell":         {good, []string{"run", "job", "-c", ""}, "no command to run"},
		"name with a dash":    {good, []string{"run", "-x", "--", "true"}, "unknown flag -x"},
		"empty command":       {good, []string{"run", "job", "--", ""}, "no command"},
		"empty name":          {good, []string{"run", "", "--", "true"}, "it is empty"},
		"empty name to show":  {good, []string{"show", ""}, "<name>: it is empty"},
		"empty name to wait":  {good, []string{"wait", ""}, "<name>: it is empty"},
		"empty name, unlock":  {good, []string{"unlock", "--force", ""}, "<name>: it is empty"},
		"long name":           {good, []string{"run", strings.Repeat("x", 1025), "--", "true"}, "longer than 1024"},
		"brace":               {good, []string{"run", "a}b", "--", "true"}, "braces"},
		"open brace":          {good, []string{"run", "{a", "--", "true"}, "braces"},
		"empty braces":        {good, []string{"run", "{}", "--", "true"}, "braces"},
		"kind":                {good, run("--kind", "spin"), "--kind must be one of"},
		"kind of no name":     {good, run("--kind", ""), "--kind must be one of"},
		"fenced read":         {good, run("--kind", "read", "--fenced"), "no fencing tokens"},
		"fenced semaphore":    {good, run("--kind", "permits", "--fenced", "--permits", "3"), "no fencing tokens"},
		"permits of a mutex":  {good, run("--permits", "3"), "only a semaphore"},
		"permits of a fair":   {good, run("--kind", "fair", "--permits", "3"), "only a semaphore"},
		"permits of a read":   {good, run("--kind", "read", "--permits", "3"), "only a semaphore"},
		"permits 0":           {good, run("--kind", "permits", "--permits", "0"), "from 1 to"},
		"permits -1":          {good, run("--kind", "permits", "--permits=-1"), "from 1 to"},
		"permits 2^31":        {good, run("--kind", "permits", "--permits", "2147483648"), "from 1 to"},
		"permits words":       {good, run("--kind", "permits", "--permits", "many"), "permits"},
		"on lost":             {good, run("--on-lost", "panic"), "--on-lost must be one of"},
		"lease 0":             {good, run("--lease", "0"), "lease"},
		"lease -1":            {good, run("--lease=-1"), "lease"},
		"lease -1s":           {good, run("--lease=-1s"), "lease"},
		"lease 100ns":         {good, run("--lease", "100ns"), "lease"},
		"lease 300 years":     {good, run("--lease", "2628000h"), "lease"},
		"lease 290 years":     {good, run("--lease", "2540400h"), "lease"},
		"lease words":         {good, run("--lease", "long"), "lease"},
		"wait without unit":   {good, run("--wait", "5"), "--wait: \"5\" has no unit (a time is written as 500ms, 10s or 1h30m)"},
		"wait without time":   {good, []string{"run", "job", "--wait"}, "--wait: its value is missing"},
		"wait negative":       {good, run("--wait=-5s"), "negative"},
		"wait negative apart": {good, run("--wait", "-5s"), "--wait must not be negative"},
		"wait and try":        {good, run("--try", "--wait", "1s"), "exclude"},
		"quiet and verbose":   {good, run("-q", "-v"), "exclude"},
		"status to none":      {good, run("--json-status", "17"), "no file descriptor that is open for writing; a shell opens one with 17>FILE"},
		"status to stdin":     {good, run("--json-status", "0"), "no file descriptor"},
		"status to words":     {good, run("--json-status", "x"), "--json-status"},
		"min hold too short":  {good, run("--min-hold", "1us"), "a shortest hold of 1µs"},
		"min hold of a read":  {good, run("--min-hold", "1us", "--kind", "read"), "a shortest hold of 1µs"},
		"max run negative":    {good, run("--max-run=-5s"), "negative"},
		"min hold negative":   {good, run("--min-hold=-5s"), "a shortest hold of -5s"},
		"grace too long":      {good, run("--lease", "2s", "--grace", "1s"), "does not fit"},
		"grace negative":      {good, run("--grace=-1s"), "does not fit"},
		"no redis":            {"", run(), "--redis"},
		"no password file":    {good, run("--password-file", "/nonexistent/file"), "password file"},
		"no ca file":          {"rediss://:s3cret@h", run("--tls-ca", "/nonexistent/file"), "CA file"},
		"ca without tls":      {good, run("--tls-ca", "/etc/hostname"), "does not use TLS"},
		"skip verify":         {"rediss://:s3cret@h?skip_verify=true", run(), "--insecure-skip-verify"},
		"url without scheme":  {":s3cret@h:1", run(), "must be redis://"},
		"url database":        {"redis://:s3cret@h/s3cret", run(), "database"},
		"key without cert":    {"rediss://:s3cret@h", run("--tls-key", "/dev/null"), "both, --tls-cert and --tls-key"},
		"no certificate":      {"rediss://:s3cret@h", run("--tls-key", "/dev/null", "--tls-cert", "/dev/null"), "client certificate cannot be used"},
		"cert without tls":    {good, run("--tls-key", "/dev/null", "--tls-cert", "/dev/null"), "does not use TLS"},
		"empty password":      {good, run("--password-file", "/dev/null"), "no password in its first line"},
		"sentinel user":       {good, run("--sentinel-user", "u"), "names no sentinels"},
		"url as command":      {good, []string{"redis://u:s3cret@h"}, "there is no command"},
		"url in two words":    {good, []string{"redis://u:s3cret@h h"}, "there is no command"},
		"url with a ?":        {good, []string{"show", "job", "redis://u:s3cret@h?"}, "unexpected argument"},
		"url as argument":     {good, []string{"demo", "redis://u:s3cret@h"}, "must be one of"},
		"url as flag":         {good, []string{"ls", "--redis://u:s3cret@h?db=1"}, "unknown flag"},
		"url in a list":       {good, []string{"ls", "--kind", "mutex,redis://u:s3cret@h"}, "kind"},
		"url with odd bytes":  {good, run("--wait=redis://u:\xff\u2028s3cret@h"), "wait"},
		"url as yes or no":    {good, []string{"ls", "--held=redis://u:s3cret@h"}, "held"},
		"url of a file":       {good, run("--password-file", "redis://u:s3cret@h"), "no such file"},
		"url of a ca file":    {"rediss://h", run("--tls-ca=redis://u:s3cret@h"), "CA file"},
		"help of a url":       {good, []string{"help", "redis://u:s3cret@h"}, "there is no command (not shown); see holdfast --help"},
		"help of a part":      {good, []string{"help", "u:s3cret@h"}, "see holdfast --help"},
		"page at a url":       {good, []string{"dashboard", "--listen", "http://u:s3cret@h"}, "listen"},
		"demo of no kind":     {good, []string{"demo", "spin"}, "must be one of"},
		"demo of two kinds":   {good, []string{"demo", "rw", "fenced"}, "unexpected argument fenced"},
		"url to wrong flag":   {good, run("--lease=redis://u:s3cret@h"), "lease"},
		"url to other flag":   {good, run("--kind", "redis://u:s3cret@h"), "kind"},
		"url to no flag":      {good, run("--redi=redis://u:s3cret@h"), "unknown flag"},
		"page for all":        {good, []string{"dashboard", "--listen", "0.0.0.0:0"}, "so it wants a token: --token-file, or HOLDFAST_DASHBOARD_TOKEN"},
		"page for all, short": {good, []string{"dashboard", "--listen", ":0"}, "so it wants a token"},
		"page for all, v6":    {good, []string{"dashboard", "--listen", "[::]:0"}, "so it wants a token"},
		"page at a name":      {good, []string{"dashboard", "--listen", "example.com:0"}, "so it wants a token"},
		"page without port":   {good, []string{"dashboard", "--listen", "127.0.0.1"}, "an address and a port"},
		"page, short token":   {good, []string{"dashboard", "--token-file", short}, "16 characters at least"},
		"page, weak token":    {good, []string{"dashboard", "--token-file", weak}, "easy to guess, because it repeats itself or counts on; make one by: openssl rand -hex 16"},
		"page, no token":      {good, []string{"dashboard", "--token-file", "/dev/null"}, "no token in its first line"},
		"page, no token file": {good, []string{"dashboard", "--token-file", "/nonexistent/file"}, "the token file cannot be read"},
		"page, host is URL":   {good, []string{"dashboard", "--host", "https://locks.example.com"}, "not a URL"},
		"page, host, path":    {good, []string{"dashboard", "--host", "locks.example.com/x"}, "not a URL"},
		"page, host, port":    {good, []string{"dashboard", "--host", ":8443"}, "takes a name such as locks.example.com"},
		"page, base, no /":    {good, []string{"dashboard", "--base-path", "locks"}, "a path such as /locks"},
		"page, base, //":      {good, []string{"dashboard", "--base-path", "//evil.example"}, "a path such as /locks"},
		"page, base, dots":    {good, []string{"dashboard", "--base-path", "/a/../b"}, "a path such as /locks"},
		"page, base, HTML":    {good, []string{"dashboard", "--base-path", `/"><script>`}, "a path such as /locks"},
		"page, base, URL":     {good, []string{"dashboard", "--base-path", "https://tools.example.com/locks"}, "a path such as /locks"},
		"page, base, taken":   {good, []string{"dashboard", "--base-path", "/api/"}, "a path of the dashboard's own"},
		"page, interval":      {good, []string{"dashboard", "--interval", "1ms"}, "the least is 100ms"},
		"acl of no kind":      {good, []string{"acl", "job"}, "--kind is missing"},
		"acl of another kind": {good, []string{"acl", "--kind", "spin", "job"}, "must be one of"},
		"acl of no name":      {good, []string{"acl", "--kind", "mutex"}, "the names of the locks are missing: holdfast acl --kind=KIND,..."},
		"acl, empty name":     {good, []string{"acl", "--kind", "mutex", "job", ""}, "cannot be the name of a lock: it is empty"},
		"acl, braces":         {good, []string{"acl", "--kind", "mutex", "job}*"}, "cannot be the name of a lock"},
		"acl, long name":      {good, []string{"acl", "--kind", "mutex", strings.Repeat("\x1b", 1025)}, "cannot be the name of a lock"},
		"acl, empty tenant":   {good, []string{"acl", "--kind", "mutex", "--tenant", "", "job"}, "--tenant, or HOLDFAST_TENANT, is no name of 1 to 128 bytes"},
		"acl, two users":      {good, []string{"acl", "--kind", "mutex", "--user", "a on +@all", "job"}, "--user is no name of a Redis user"},
		"acl, empty user":     {good, []string{"acl", "--kind", "mutex", "--user", "", "job"}, "--user is no name of a Redis user"},
		"acl of everybody":    {good, []string{"acl", "--kind", "mutex", "--user", "default", "job"}, "name another one"},
		"acl of no server":    {good, []string{"acl", "--kind", "mutex", "--server", "5", "job"}, "must be one of"},
		"demo with bad url":   {"redis://:s3cret@h h", []string{"demo"}, "white space"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := holdfast(t, c.url, c.args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if got := code(t, cmd.Run()); got != 64 {
				t.Errorf("exit code %d, want 64", got)
			}
			said := stderr.String()
			if !strings.HasPrefix(said, "holdfast: ") || strings.Count(said, "\n") != 1 || !strings.Contains(said, c.says) {
				t.Errorf("standard error is not one sentence with %q: %q", c.says, said)
			}
			if strings.Contains(said, "s3cret") {
				t.Errorf("a credential is shown: %q", said)
			}
			if stdout.Len() > 0 {
				t.Errorf("on standard output: %q", &stdout)
			}
		})
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-touched:
		t.Error("somebody connected to Redis")
	default:
	}
}
