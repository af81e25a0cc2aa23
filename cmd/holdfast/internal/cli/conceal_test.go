package cli

import (
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
)

// A word that is an ordinary one and stands in a URL, too, is no secret.
func TestConceal(t *testing.T) {
	const said = `the command "true" of lock 3: true`
	url := "redis://u:s3crett@h?cluster=true&db=3"
	if got := conceal(said, []string{url, "HOLDFAST_REDIS=" + url}, hasPassword); got != said {
		t.Error(got)
	}
	for _, hidden := range []string{"redis://u:s3cret\x01@h", "redis://u:s3cret\xff@h"} {
		if got := conceal("none among "+present.Safe(hidden), []string{hidden}, hasPassword); got != "none among "+notShown {
			t.Error(got)
		}
	}
	if got := conceal("no "+url, []string{"t@h", url}, maybeURL); got != "no "+notShown {
		t.Error(got)
	}
	for _, arg := range []string{"--redis=" + url, url} {
		if got := conceal("no "+url+" here", []string{arg}, hasPassword); got != "no "+notShown+" here" {
			t.Error(got)
		}
	}
}
