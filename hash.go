package holdfast

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// hash is the dialect of the plain lock: a hash of owner -> count at its name.
type hash struct {
	name   string
	config mutexConfig
}

func (l hash) acquire(w wish) request {
	keys := []string{l.name}
	if w.token {
		keys = append(keys, wire.Token(l.name))
	}
	return request{
		script: script.Mutex.Acquire, keys: keys,
		args: []string{
			millis(w.lease), w.owner.String(), strconv.Itoa(w.from), strconv.Itoa(w.to), millis(l.config.tokenTTL),
		},
	}
}

func (l hash) release(owner Owner, from, to int) request {
	return request{
		script: script.Mutex.Release, keys: []string{l.name}, channel: l.channel(owner),
		args: []string{wire.Released, owner.String(), strconv.Itoa(from), strconv.Itoa(to)},
	}
}

func (l hash) renew(owner Owner, _ int, ttl time.Duration) request {
	return request{
		script: script.Mutex.Renew, keys: []string{l.name}, args: []string{owner.String(), millis(ttl)},
	}
}

func (l hash) adopt(w wish, other Owner) request {
	return request{
		script: script.Mutex.Adopt, keys: l.acquire(w).keys, channel: l.channel(other), acks: true,
		args: []string{millis(w.lease), w.owner.String(), other.String(), millis(l.config.tokenTTL), wire.Released},
	}
}

func (l hash) force(holders []string) request {
	return request{
		script: script.Mutex.Force, keys: []string{l.name}, channel: wire.LockChannel(l.name),
		args: append([]string{wire.Released}, holders...),
	}
}

func (l hash) inspect() request {
	keys := []string{l.name}
	if l.config.fenced {
		keys = append(keys, wire.Token(l.name))
	}
	return request{script: script.Mutex.Inspect, keys: keys}
}

func (l hash) size() request {
	return request{script: script.Size, keys: l.inspect().keys}
}

func (hash) aside() []string { return nil }

func (hash) leave(Owner) request { return request{} }

func (l hash) channel(Owner) string {
	if l.config.polling {
		return ""
	}
	return wire.LockChannel(l.name)
}
