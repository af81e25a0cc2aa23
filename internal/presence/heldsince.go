package presence

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// mostHeld is how many fields of holds a client's hash has at most.
const mostHeld = 1000

// heldSince is since when a client's holds last, and which of them have changed since Redis was told. Use
// newHeldSince.
type heldSince struct {
	holds  map[any][]string // the fields of each hold
	fields map[string]heldField
	// changed are the fields that have changed since the last write. It is nil if the next write is full: then
	// nothing needs to be collected.
	changed map[string]struct{}
}

// heldField is since when one field is held, and by how many holds: the two sides of a read-write
// lock have the same field if one owner holds both.
type heldField struct {
	since mono.Time
	by    int
}

func newHeldSince() heldSince {
	return heldSince{holds: map[any][]string{}, fields: map[string]heldField{}}
}

// add adds a hold, unless there are too many.
func (h *heldSince) add(hold any, fields []string, since mono.Time) {
	if len(h.fields)+len(fields) > mostHeld {
		return
	}
	h.holds[hold] = fields
	for _, field := range fields {
		found, is := h.fields[field]
		if found.by++; !is {
			found.since = since
			h.change(field)
		}
		h.fields[field] = found
	}
}

// remove removes a hold, if it was added.
func (h *heldSince) remove(hold any) {
	for _, field := range h.holds[hold] {
		found := h.fields[field]
		if found.by--; found.by > 0 {
			h.fields[field] = found
			continue
		}
		delete(h.fields, field)
		h.change(field)
	}
	delete(h.holds, hold)
}

func (h *heldSince) change(field string) {
	if h.changed != nil {
		h.changed[field] = struct{}{}
	}
}

func (h *heldSince) hasChanged() bool { return len(h.changed) > 0 }

// forgetChanges has the next write be full.
func (h *heldSince) forgetChanges() { h.changed = nil }

// take returns what the next write says: for how long fields have been held, and which are no more. A full
// write says all that are held.
func (h *heldSince) take(full bool, now mono.Time) (held map[string]time.Duration, ended []string) {
	held = map[string]time.Duration{}
	if full {
		for field, found := range h.fields {
			held[field] = now.Sub(found.since)
		}
	} else {
		for field := range h.changed {
			if found, is := h.fields[field]; is {
				held[field] = now.Sub(found.since)
			} else {
				ended = append(ended, field)
			}
		}
	}
	h.changed = map[string]struct{}{}
	return held, ended
}

// age is for how long a field has been held; 0 if that is not known.
func (h *heldSince) age(field string) time.Duration {
	if found, is := h.fields[field]; is {
		return mono.Now().Sub(found.since)
	}
	return 0
}
