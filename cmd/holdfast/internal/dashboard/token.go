package dashboard

import (
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
)

const (
	shortestToken = 16
	// leastFresh is how many characters of a token the ones before must not foretell.
	leastFresh = 11

	// guessWindow is how long wrong tokens are counted together.
	guessWindow = time.Minute
	// freeGuesses is how many wrong tokens in a window cost nothing. Behind them, every token has to wait for guessDelay, the right one, too,
	// and nobody is locked out.
	freeGuesses = 10
	guessDelay  = 500 * time.Millisecond
)

// CheckToken refuses a token that is easy to guess: one that is short, or a run or a repetition such as abcabcabc or 12345678. It knows no
// dictionary.
func CheckToken(token string) error {
	const remedy = "make one by: openssl rand -hex 16"
	switch {
	case utf8.RuneCountInString(token) < shortestToken:
		return fmt.Errorf("the token is too short; it needs %d characters at least; %s", shortestToken, remedy)
	case fresh(token) < leastFresh:
		return fmt.Errorf("the token is easy to guess, because it repeats itself or counts on; %s", remedy)
	}
	return nil
}

// fresh is how many characters of a token do not follow from those before: they neither go on as far from each other as the two before, nor
// repeat a pair.
func fresh(token string) (n int) {
	pairs := map[[2]rune]bool{}
	letters := []rune(token)
	for i, letter := range letters {
		if i == 0 {
			n++
			continue
		}
		pair := [2]rune{letters[i-1], letter}
		goesOn := i > 1 && letter-letters[i-1] == letters[i-1]-letters[i-2]
		if !goesOn && !pairs[pair] {
			n++
		}
		pairs[pair] = true
	}
	return n
}

// guesses counts the wrong tokens, and reports them: in two lines a minute at most, however many there are.
type guesses struct {
	log func(format string, args ...any)

	mu    sync.Mutex
	began time.Time // when the first of wrong came
	wrong int
	from  string // where the last came from
}

// delay is how long a token that has come now has to wait.
func (g *guesses) delay(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wrong >= freeGuesses && now.Sub(g.began) < guessWindow {
		return guessDelay
	}
	return 0
}

// add counts one.
func (g *guesses) add(now time.Time, from string) {
	g.report(now)
	g.mu.Lock()
	first := g.wrong == 0
	if first {
		g.began = now
	}
	g.wrong++
	g.from = from
	g.mu.Unlock()
	if first {
		g.log("a wrong token came from %s", from)
	}
}

// report reports those behind the first of a window that is over.
func (g *guesses) report(now time.Time) {
	g.mu.Lock()
	more, from := g.wrong-1, g.from
	over := g.wrong > 0 && now.Sub(g.began) >= guessWindow
	if over {
		g.wrong = 0
	}
	g.mu.Unlock()
	if over && more > 0 {
		g.log("%s came within a minute, the last one from %s", text.Count(more, "more wrong token"), from)
	}
}
