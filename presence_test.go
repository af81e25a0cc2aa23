package holdfast

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// While Redis refuses to be told of holds, those that have ended leave nothing behind: such a client asks
// again twenty minutes later, and may have had many by then.
func TestPresenceForgetsWhatItCannotTell(t *testing.T) {
	p := newPresence(&Client{id: "99f17b91-c6cc-889e-88f6-8265bee545cf"})
	p.failed = true
	p.due.Store(int64(mono.Now().Add(time.Hour)))
	for i := range 100 {
		s := &ownerState{ownerOf: ownerOf{&kind{traits: mutexTraits, name: "x"}, Owner{p.client.id + ":" + strconv.Itoa(i)}}}
		p.holds(s, mono.Now())
		p.ended(s)
	}
	if len(p.changed)+len(p.held)+len(p.fields) > 0 {
		t.Errorf("%d changes, %d holds of %d owners are left", len(p.changed), len(p.held), len(p.fields))
	}
}
