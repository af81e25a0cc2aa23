package dashboard

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCheckToken refuses what is easy to guess, and nothing that is drawn at random as the error says.
func TestCheckToken(t *testing.T) {
	t.Parallel()
	for _, weak := range []string{
		"", "s3cret", "fifteen-letters", strings.Repeat("a", 16), strings.Repeat("a", 1000), strings.Repeat("a", 15) + "b", "abababababababab", "1234567890123456",
		"0123456789abcdef", "abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlk", "aceg" + "ikmoqsuwy" + "aceg", "passwordpassword", "password12345678", "letmeinletmeinletmein",
		strings.Repeat("secret", 20), strings.Repeat("ü", 16), "üüüüüüüüüüüüüüü", strings.Repeat("😀🔒", 8), "                ", "aaaabbbbccccddddeeee",
	} {
		if err := CheckToken(weak); err == nil || !strings.Contains(err.Error(), "openssl rand -hex 16") || weak != "" && strings.Contains(err.Error(), weak) {
			t.Errorf("%q: %v", weak, err)
		}
	}
	random := make([]byte, 32)
	for range 1000 {
		_, _ = rand.Read(random)
		for _, token := range []string{hex.EncodeToString(random[:16]), hex.EncodeToString(random), base64.StdEncoding.EncodeToString(random[:24]), base64.RawURLEncoding.EncodeToString(random[:16])} {
			if err := CheckToken(token); err != nil {
				t.Errorf("%s: %v", token, err)
			}
		}
	}
	for _, good := range []string{"correct horse battery staple", "razorbill-on-a-rock", "Größe-42-für-mäßig"} {
		if err := CheckToken(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// TestGuessesAreReported in two lines a minute at most, with where they came from and how many there were; and slow down what comes behind
// ten, for a minute.
func TestGuessesAreReported(t *testing.T) {
	t.Parallel()
	var lines []string
	g := &guesses{log: func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }}
	at := time.UnixMilli(1_700_000_000_000)
	says := func(want ...string) {
		t.Helper()
		if !slices.Equal(lines, want) {
			t.Errorf("%q, want %q", lines, want)
		}
		lines = nil
	}
	delays := func(want time.Duration) {
		t.Helper()
		if got := g.delay(at); got != want {
			t.Errorf("a delay of %v, want %v", got, want)
		}
	}
	g.report(at)
	says()
	delays(0)
	g.add(at, "10.0.0.7")
	says("a wrong token came from 10.0.0.7")
	for range freeGuesses - 1 {
		delays(0)
		at = at.Add(time.Second)
		g.add(at, "10.0.0.8")
	}
	g.report(at)
	says()
	delays(guessDelay)
	for range 990 {
		g.add(at, "10.0.0.9")
	}
	at = at.Add(guessWindow)
	delays(0)
	g.report(at)
	says("999 more wrong tokens came within a minute, the last one from 10.0.0.9")
	g.report(at)
	g.add(at, "fe80::1%eth0")
	says("a wrong token came from fe80::1%eth0")
	at = at.Add(guessWindow)
	g.report(at)
	g.add(at, "::1")
	g.add(at, "::1")
	at = at.Add(guessWindow)
	g.add(at, "::2")
	says("a wrong token came from ::1", "1 more wrong token came within a minute, the last one from ::1", "a wrong token came from ::2")
}

// TestGuessing guesses by both ways, and signs in all the same, if slowly. What was given is in no line.
func TestGuessing(t *testing.T) {
	t.Parallel()
	const token = "correct horse battery staple"
	w := served(t, func(c *Config) { c.Token = token })
	for i := range freeGuesses {
		guess := fmt.Sprintf("a-guess-of-mine-%d", i)
		if i%2 == 0 {
			w.refused("a guess", http.StatusUnauthorized, "not the token", http.MethodPost, signInPath, map[string]string{"token": guess}, nil)
		} else {
			w.refused("a guess", http.StatusUnauthorized, "token is wanted", http.MethodGet, metricsPath, nil, header("Authorization", "Bearer "+guess))
		}
	}
	w.refused("no guess", http.StatusUnauthorized, "token is wanted", http.MethodGet, metricsPath, nil, nil)
	began := time.Now()
	w.answers(http.MethodPost, signInPath, map[string]string{"token": token}, nil)
	if took := time.Since(began); took < guessDelay {
		t.Errorf("a token is looked at after %v", took)
	}
	if said := w.hasSaid(); strings.Count(said, "wrong token") != 1 || !strings.Contains(said, "a wrong token came from 127.0.0.1\n") || strings.Contains(said, "of-mine") {
		t.Errorf("%s", said)
	}
}
