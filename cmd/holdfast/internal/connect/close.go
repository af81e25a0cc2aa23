package connect

import (
	"time"

	"github.com/holdfast-go/holdfast"
)

// CloseWithin closes a client whose program is about to end, and returns after
// limit at the latest. What could not be given back by then ends with its lease.
func CloseWithin(limit time.Duration, client *holdfast.Client) {
	closed := make(chan struct{})
	go func() { // ends within the client's timeout, or with the program
		defer close(closed)
		_ = client.Close()
	}()
	select {
	case <-closed:
	case <-time.After(limit):
	}
}
