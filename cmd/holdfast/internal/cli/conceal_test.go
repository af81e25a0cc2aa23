package cli

import "testing"

// A word that is an ordinary one and stands in a URL, too, is no secret.
func TestConceal(t *testing.T) {
	const said = `the command "true" of lock 3: true`
	url := "redis://u:s3cret@h?cluster=true&db=3"
	if got := conceal(said, []string{url, "HOLDFAST_REDIS=" + url}, hasPassword); got != said {
		t.Error(got)
	}
	for _, arg := range []string{"--redis=" + url, url} {
		if got := conceal("no "+url+" here", []string{arg}, hasPassword); got != "no "+notShown+" here" {
			t.Error(got)
		}
	}
}
