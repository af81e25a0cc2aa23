package survey

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// lockJSON is a lock as programs read it. docs/cli.md lists the names.
type lockJSON struct {
	Name        string       `json:"name"`
	NameBase64  string       `json:"name_base64,omitempty"` // of a name that is no UTF-8
	Kind        Kind         `json:"kind"`
	State       State        `json:"state"`
	Ours        bool         `json:"ours"`
	At          string       `json:"at"`
	TTL         int64        `json:"ttl_ms"`
	Mode        string       `json:"mode,omitempty"`
	Token       int64        `json:"token,omitempty"`
	Holders     []holderJSON `json:"holders"`
	HolderCount int          `json:"holder_count"`
	Waiters     []waiterJSON `json:"waiters"`
	Waiting     int          `json:"waiting"`
	Listeners   int          `json:"listeners"`
	Total       *int64       `json:"permits_total,omitempty"`
	Available   *int64       `json:"permits_available,omitempty"`
	Taken       *int64       `json:"permits_held,omitempty"`
	Count       *int64       `json:"count,omitempty"`
}

type whoJSON struct {
	Program string `json:"program,omitempty"`
	Version string `json:"version,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Began   string `json:"client_since,omitempty"`
}

type holderJSON struct {
	Owner string `json:"owner"`
	whoJSON
	Mode  string `json:"mode,omitempty"`
	Count int64  `json:"count"`
	Since string `json:"since,omitempty"`
	Held  *int64 `json:"held_ms,omitempty"`
	TTL   int64  `json:"ttl_ms"`
	Kept  bool   `json:"kept_by_min_hold,omitempty"`
}

type waiterJSON struct {
	Owner string `json:"owner"`
	whoJSON
	Mode   string `json:"mode,omitempty"`
	Wants  int64  `json:"wants,omitempty"`
	Since  string `json:"since,omitempty"`
	Waited *int64 `json:"waited_ms,omitempty"`
	Silent bool   `json:"silent"`
}

// MarshalJSON writes the lock for programs: times in ms, -1 for what does not end, and moments as RFC
// 3339 has them. docs/cli.md lists the names, which do not change.
func (l Lock) MarshalJSON() ([]byte, error) {
	out := lockJSON{
		Name: l.Name, Kind: l.Kind, State: l.State, Ours: l.Ours, At: stamp(l.At), TTL: millis(l.TTL), Mode: l.Mode, Token: l.Token,
		Holders: make([]holderJSON, len(l.Holders)), HolderCount: l.HolderCount,
		Waiters: make([]waiterJSON, len(l.Waiters)), Waiting: l.Waiting, Listeners: l.Listeners,
	}
	if !utf8.ValidString(l.Name) {
		out.NameBase64 = base64.StdEncoding.EncodeToString([]byte(l.Name))
	}
	switch l.Kind {
	case Permits:
		out.Total, out.Available, out.Taken = &l.Total, &l.Available, &l.Taken
	case Semaphore:
		out.Available = &l.Available
	case Latch, Number:
		out.Count = &l.Count
	default:
	}
	for i, h := range l.Holders {
		out.Holders[i] = holderJSON{Owner: h.Owner, whoJSON: whoOf(h.Who), Mode: h.Mode, Count: h.Count, Since: stamp(h.Since), TTL: millis(h.TTL), Kept: protocol.Kept(h.Owner)}
		if !h.Since.IsZero() {
			held := millis(l.HeldFor(h))
			out.Holders[i].Held = &held
		}
	}
	for i, w := range l.Waiters {
		out.Waiters[i] = waiterJSON{Owner: w.Owner, whoJSON: whoOf(w.Who), Mode: w.Mode, Wants: w.Wants, Since: stamp(w.Since), Silent: w.Silent}
		if !w.Since.IsZero() {
			waited := millis(l.WaitedFor(w))
			out.Waiters[i].Waited = &waited
		}
	}
	return json.Marshal(out)
}

func whoOf(i holdfast.Identity) whoJSON {
	return whoJSON{Program: i.Program, Version: i.Version, Host: i.Host, PID: i.PID, Began: stamp(i.Since)}
}

// stamp writes a moment; empty if there is none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// millis writes a duration; -1 if it does not end.
func millis(d time.Duration) int64 {
	if d == holdfast.NoExpiry {
		return -1
	}
	return d.Milliseconds()
}
