package scripts

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// rwAcquire lets an owner that writes read.
func (w *twins) rwAcquire(who string, a *protocol.Acquire) {
	a.Writes = !strings.HasSuffix(who, "W") && (w.count(who+"W") > 0 || w.rnd.Intn(12) == 0)
}

// rwForced names all readers now and then.
func (w *twins) rwForced(who string, names []string) []string {
	if !strings.HasSuffix(who, "W") && w.rnd.Intn(4) == 0 {
		names = append(names, protocol.Everybody)
	}
	return names
}

// rwForeign makes a read hold expire, or a Redisson client use the lock.
func (w *twins) rwForeign(holder string) {
	if holder != "" && !strings.HasSuffix(holder, "W") && w.rnd.Intn(4) == 0 {
		w.note("the read hold of ", holder, " expires")
		w.do("DEL", "@"+holder+":rwlock_timeout:1")
	} else {
		w.javaUses(holder)
	}
}

// rwTakes makes a Redisson client take a side of the lock.
func (w *twins) rwTakes(java string) {
	w.javaTakes(java)
	if strings.HasSuffix(java, "W") {
		w.do("HSET", "LOCK", "mode", "write")
	} else {
		w.do("HSET", "LOCK", "mode", "read")
		w.do("SET", "@"+java+":rwlock_timeout:1", "1", "PX", "30000")
	}
}

// rwState returns the mode, and the time to live of the lock.
func (w *twins) rwState(s *stage) string {
	lives := s.pttl(s.name)
	if w.began > 0 {
		lives = of(lives)
	}
	return fmt.Sprint(s.do("HGET", s.name, "mode"), lives)
}
