package holdfasttest

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faketime"
)

// Who uses a server in a bubble that was started outside is told so, in place of waiting for ever.
func TestStartOutsideOfTheBubble(t *testing.T) {
	redis := Start(t)
	faketime.Test(t, func(t *testing.T) {
		for name, use := range map[string]func(){
			"Client": func() { redis.Client() },
			"a call": func() { redis.fault(driver.Call{}) }, // a client that has made one is of no use
		} {
			func() {
				defer func() {
					if text, _ := recover().(string); !strings.Contains(text, "call it inside, with the bubble's t") {
						t.Errorf("%s: %q", name, text)
					}
				}()
				use()
			}()
		}
	})
}
