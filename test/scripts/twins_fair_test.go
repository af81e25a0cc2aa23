package scripts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// fairAcquire lists each waiter, also one without a request to record.
func (w *twins) fairAcquire(_ string, a *protocol.Acquire) { a.Unlisted = false }

// fairForced names one owner: whoever inspects a fair lock sees one holder at most.
func (w *twins) fairForced(_ string, names []string) []string { return names[:1] }

// fairForeign makes a Redisson client use the queue, or the lock without it.
func (w *twins) fairForeign(holder string) {
	if w.rnd.Intn(3) > 0 {
		w.fairQueues(oneOf(w, w.java...), holder)
	} else {
		w.javaUses(holder)
	}
}

// fairQueues makes a Redisson client join the queue; or take the lock as its first, or else leave.
func (w *twins) fairQueues(java, holder string) {
	s := w.sides[0]
	queue := s.named(strings.Fields(s.do("LRANGE", s.keys["LINE"], "0", "-1"))...)
	switch {
	case holder == java:
	case !slices.Contains(queue, java):
		wait := oneOf(w, int64(2_000), 20_000, 300_000)
		w.note(java, " joins the queue for ", wait)
		w.do("RPUSH", "LINE", "@"+java)
		w.do("ZADD", "TIMES", strconv.FormatInt(time.Now().UnixMilli()+wait, 10), "@"+java)
	case holder == "" && queue[0] == java:
		w.takes(w, java)
	default:
		w.note(java, " leaves the queue")
		w.fairLeaves(java)
	}
}

// fairLeaves removes a Redisson client's entry.
func (w *twins) fairLeaves(java string) {
	w.do("LREM", "LINE", "0", "@"+java)
	w.do("ZREM", "TIMES", "@"+java)
}

// fairTakes makes a Redisson client take the lock, and leave the queue.
func (w *twins) fairTakes(java string) {
	w.javaTakes(java)
	w.fairLeaves(java)
}

// fairState returns the scores of the queue.
func (w *twins) fairState(s *stage) string {
	times, beats := s.keys["TIMES"], protocol.FairHeartbeatsKey(s.name)
	scores := w.named(s, s.do("ZRANGE", times, "0", "-1", "WITHSCORES")+" "+s.do("ZRANGE", beats, "0", "-1", "WITHSCORES"))
	if w.began > 0 {
		return fmt.Sprint(len(strings.Fields(scores)))
	}
	return fmt.Sprint(scores, s.pttl(times), s.pttl(beats))
}
