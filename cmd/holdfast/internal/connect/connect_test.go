package connect

import (
	"crypto/tls"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]address{
		"redis://h":                          {hosts: []string{"h:6379"}},
		" \tredis://h:1/2\r\n":               {hosts: []string{"h:1"}, db: 2},
		"REDIS://H:1/2/":                     {hosts: []string{"H:1"}, db: 2},
		"Valkeys+Sentinel://a/m/":            {hosts: []string{"a:26379"}, master: "m", tls: true},
		"redis://:p q@h":                     {hosts: []string{"h:6379"}, password: "p q"},
		"redis://:%22p%22@h":                 {hosts: []string{"h:6379"}, password: `"p"`},
		"redis://h:1/":                       {hosts: []string{"h:1"}},
		"redis://10.0.0.1:1/15":              {hosts: []string{"10.0.0.1:1"}, db: 15},
		"redis://[::1]":                      {hosts: []string{"[::1]:6379"}},
		"redis://[fe80::1]:1/2":              {hosts: []string{"[fe80::1]:1"}, db: 2},
		"redis://:p%40s%2Fs@h":               {hosts: []string{"h:6379"}, password: "p@s/s"},
		"redis://us%3Aer:p:w@h":              {hosts: []string{"h:6379"}, user: "us:er", password: "p:w"},
		"rediss://h":                         {hosts: []string{"h:6379"}, tls: true},
		"rediss://h?skip_verify=true":        {hosts: []string{"h:6379"}, tls: true, skipVerify: true},
		"redis://a,b:2,c":                    {hosts: []string{"a:6379", "b:2", "c:6379"}, cluster: true},
		"redis://u:p@a:1,b:2/":               {hosts: []string{"a:1", "b:2"}, cluster: true, user: "u", password: "p"},
		"redis://h:1/?cluster=true":          {hosts: []string{"h:1"}, cluster: true},
		"redis+sentinel://a,b:2/m":           {hosts: []string{"a:26379", "b:2"}, master: "m"},
		"valkey://h/3":                       {hosts: []string{"h:6379"}, db: 3},
		"valkeys://h":                        {hosts: []string{"h:6379"}, tls: true},
		"valkeys+sentinel://h/m":             {hosts: []string{"h:26379"}, master: "m", tls: true},
		"redis://h?db=3":                     {hosts: []string{"h:6379"}, db: 3},
		"redis://a,b/3":                      {hosts: []string{"a:6379", "b:6379"}, cluster: true, db: 3},
		"unix:///run/redis.sock":             {hosts: []string{"/run/redis.sock"}, socket: true},
		"unix://u:p%2F@/run/a%20b.sock?db=2": {hosts: []string{"/run/a b.sock"}, socket: true, user: "u", password: "p/", db: 2},
		"rediss+sentinel://:p@a/my-m_1/3":    {hosts: []string{"a:26379"}, master: "my-m_1", db: 3, password: "p", tls: true},
	} {
		got, err := parse(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// FuzzParse looks for credentials in what is shown of a URL, understood or not.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"redis://u:%s@h:1/2", "%s", "redis://%s", "redis://h/%s", "redis://h?%s", "redis://h?cluster=%s",
		"redis+sentinel://:%s@h,i/m", "unix://%s/run/s", "unix:///%s/run/s", "unix://u:%s@/s?db=%s", "rediss://u:%s@[::1]", "redis://u:%s@h h", "redis://h#%s", "\x00redis://%s@",
	} {
		f.Add(seed)
	}
	const secret = "s3cr3tW0rd"
	f.Fuzz(func(t *testing.T, form string) {
		// Where a host or a master stands is no place for a secret.
		text := strings.ReplaceAll(form, "%s", ":"+secret+"@")
		target, err := Options{URL: text}.Resolve()
		shown := ""
		if err != nil {
			shown = err.Error()
		} else if !strings.Contains(target.master, secret) {
			shown = target.String()
		}
		if strings.Contains(shown, secret) {
			t.Errorf("%q shows %q", text, shown)
		}
	})
}

// TestRefused has URLs that say two things, or none.
func TestRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"redis://h/1?db=2":                  errTwoDBs,
		"redis://h?db=x":                    errDBValue,
		"redis://h?db=70000":                errDBValue,
		"redis://h?cluster=2":               errBool,
		"redis://h?db=1&db=1":               errTwice,
		"redis://h?family=0":                foreignError("family"),
		"redis://u:p?ssl@h":                 errPort,
		`"redis://h"`:                       errQuotes,
		"'redis://h'\n":                     errQuotes,
		"redis://h:1`":                      errQuotes,
		`redis://:"p"@h`:                    errQuoted,
		"redis://:p\n@h":                    errSpace,
		"redis://:p @h":                     errSpace,
		"redis://:p\u00a0@h":                errSpace,
		"\ufeffredis://h":                   errSpace,
		"redis://:p%0A@h":                   errControl,
		"redis://:$(PASSWORD)@h":            errUnset,
		"redis://:${PASSWORD}@h":            errUnset,
		"redis://h:1,password=p,ssl=True":   errSetting,
		"h:1,password=p":                    errNoURL,
		"redis://h/70000":                   errDB,
		"redis+sentinel://h/m?cluster=true": errCluster,
		"unix:///s?cluster=true":            errCluster,
		"unix://":                           errSocket,
		"unix://run/redis.sock":             errSocket,
		"unix:///":                          errSocket,
		"unix://u:p/q@/run/redis.sock":      errSocket,
		"unix:///:p@/run/redis.sock":        errSocket,
		"unix+sentinel:///run/redis.sock/m": errScheme,
		"redis-sentinel://h/m":              errScheme,
		"redis:/localhost":                  errNoURL,
		"http://h":                          errScheme,
		"redis://:p%zz@h":                   errUser,
		"redis://h?password=p":              errQuery,
		"redis://h:port":                    errPort,
		"redis://h\x7f":                     errSpace,
		"redis+sentinel://h":                errMaster,
		"redis://h:0":                       errPort,
		"redis://h,i:65536":                 errPort,
		"redis://u:p/q@h":                   errPort,
		"redis://u:p#q@h":                   errHash,
		"redis://h#f":                       errHash,
		"redis+sentinel://u:1/p@h/m":        errMaster,
		"redis://h i":                       errSpace,
		"redis://h/i":                       errDB,
		"redis://h\\i":                      errHost,
		"localhost:6379":                    errNoURL,
	} {
		if _, err := (Options{URL: text}).Resolve(); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

// TestPasswords has passwords as files and variables spoil them.
func TestPasswords(t *testing.T) {
	t.Parallel()
	const password = "s3 cret"
	for text, want := range map[string]string{
		password: "", password + "\n": "", password + " \r\n": "", " " + password: "",
		`"` + password + `"`: "in quotes", "'" + password + "'\n": "in quotes", "\ufeff" + password: "byte order mark", "s3\x00cret": "invisible",
	} {
		file := t.TempDir() + "/password"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, p := range []Password{{Text: text}, {File: file}} {
			target, err := Options{URL: "redis+sentinel://h/m", Password: p, SentinelPassword: p}.Resolve()
			if want != "" {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "cret") {
					t.Errorf("%q: %v", text, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%q: %v", text, err)
				continue
			}
			if _, got, err := target.credentials(t.Context()); got != password || err != nil {
				t.Errorf("%q is read as %q, %v", text, got, err)
			}
			if _, got, err := target.sentinelCredentials(t.Context()); got != password || err != nil {
				t.Errorf("%q is read as %q, %v, for the sentinels", text, got, err)
			}
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	resolve := func(o Options) (*tls.Config, error) {
		target, err := o.Resolve()
		if err != nil {
			return nil, err
		}
		return target.tlsConfig(t.Context())
	}
	config, err := resolve(Options{URL: "rediss://h"})
	if err != nil || config.MinVersion != tls.VersionTLS12 || config.InsecureSkipVerify {
		t.Errorf("%+v, %v", config, err)
	}
	if _, err := (Options{URL: "rediss://h?skip_verify=1"}).Resolve(); err == nil {
		t.Error("skip_verify was accepted")
	}
	config, err = resolve(Options{URL: "rediss://h?skip_verify=1", InsecureSkipVerify: true})
	if err != nil || !config.InsecureSkipVerify {
		t.Errorf("%+v, %v", config, err)
	}
}
