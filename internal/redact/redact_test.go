package redact

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	for _, said := range []string{
		"ERR unknown command 'AUTH', with args beginning with: 's3cret' ",
		"ERR unknown command `hello`, with args beginning with: `3`, `AUTH`, `ann`, `s3cret`, ", // before Redis 7.0
	} {
		for _, err := range []error{errors.New(said), errors.Join(io.EOF, errors.New(said))} {
			got := Arguments(err)
			if strings.Contains(got.Error(), "s3cret") || !strings.Contains(got.Error(), "unknown command") || errors.Unwrap(got) != nil {
				t.Errorf("%q", got)
			}
		}
	}
	if got := Arguments(io.EOF); !errors.Is(got, io.EOF) {
		t.Error(got)
	}
}
