// Package testclient makes the clients of the tests, so that one environment variable can
// switch the hand-over off for all of them.
package testclient

import (
	"os"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// variable is set for a run without the hand-over, as make test-without-hand-over does. The
// processes that tests start inherit it.
const variable = "HOLDFAST_TEST_WITHOUT_HAND_OVER"

// WithoutHandOver reports whether the clients release every lock in Redis.
func WithoutHandOver() bool { return os.Getenv(variable) != "" }

// New is [holdfast.New].
func New(d driver.Driver, options ...holdfast.ClientOption) (*holdfast.Client, error) {
	if WithoutHandOver() {
		options = append(slices.Clone(options), holdfast.WithoutHandOver())
	}
	return holdfast.New(d, options...)
}
