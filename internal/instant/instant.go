// Package instant is a driver whose server says yes to everything, at once: what is left is the cost in this process.
package instant

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Driver replies to each script with Reply, or with the time of the call if that is nil. A reply that is made beforehand
// allocates nothing.
type Driver struct{ Reply any }

// New returns a driver that allocates nothing. Its reply is the time of now, so it is not for fake time that goes on.
func New() Driver { return Driver{time.Now().UnixMilli()} }

// Eval implements [driver.Driver].
func (d Driver) Eval(context.Context, driver.Call) (any, error) {
	if d.Reply != nil {
		return d.Reply, nil
	}
	return time.Now().UnixMilli(), nil
}

// EvalReplicated implements [driver.Driver]: all replicas have it at once.
func (d Driver) EvalReplicated(ctx context.Context, c driver.Call, replicas int, _ time.Duration) (any, int, error) {
	reply, err := d.Eval(ctx, c)
	return reply, replicas, err
}

// Check implements [driver.Driver].
func (Driver) Check() error { return nil }

// Slotted implements [driver.Driver].
func (Driver) Slotted() bool { return false }

// PublishCommand implements [driver.Driver].
func (Driver) PublishCommand(context.Context) (string, error) { return "PUBLISH", nil }

// Listen implements [driver.Driver]: there is never anything to hear.
func (d Driver) Listen(func(driver.Event)) driver.Listener { return d }

// Subscribe implements [driver.Listener].
func (Driver) Subscribe(string) {}

// Unsubscribe implements [driver.Listener].
func (Driver) Unsubscribe(string) {}

// Close implements [driver.Listener].
func (Driver) Close() {}
