package waiting

import (
	"crypto/sha256"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// deepest is the length of the longest sequences of events that the search over two processes tries.
var deepest = flag.Int("search.depth", 10, "events in a row that TestSearch tries")

// world is a small world around one or several waits. The search visits its states, nearest first.
type world[W any] interface {
	clone() W
	// copyTo overwrites another world, whose memory it reuses.
	copyTo(to W)
	// events appends what can happen next, and do makes it happen.
	events(all []event) []event
	do(e event)
	// key writes what tells this state from others.
	key(k *key)
	// wrong returns which property the state breaks, or nothing. It may change the state.
	wrong(s *search) string
	describe(e event) string
}

// event is something that happens in a world: to whom, and to which of its requests.
type event struct {
	what     uint8
	who, arg int8
}

// digest is a hash of a state.
type digest [16]byte

// search is a search under way.
type search struct {
	seen  map[digest]bool
	ends  map[digest]bool // states from which all comes to a good end
	hash  key
	steps int
	depth int
	// slowest is the longest wait beside a free lock, in ticks.
	slowest mono.Time
}

func (s *search) of(write func(k *key)) digest {
	s.hash = key{bytes: s.hash.bytes[:0]}
	write(&s.hash)
	sum := sha256.Sum256(s.hash.bytes)
	return digest(sum[:16])
}

// run visits all states that are at most depth events away, and returns which property is broken and after which events.
func run[W world[W]](start W, depth int) (s *search, wrong string, path []string) {
	type node struct {
		from int32
		by   event
	}
	type open struct {
		w  W
		at int32
	}
	s = &search{seen: map[digest]bool{}, ends: map[digest]bool{}}
	s.seen[s.of(start.key)] = true
	nodes := []node{{from: -1}}
	var all []event
	w, probe := start.clone(), start.clone()
	for level := []open{{start, 0}}; len(level) > 0 && s.depth < depth; s.depth++ {
		var next []open
		for _, from := range level {
			all = from.w.events(all[:0])
			for _, e := range all {
				s.steps++
				from.w.copyTo(w)
				w.do(e)
				state := s.of(w.key)
				if s.seen[state] {
					continue
				}
				s.seen[state] = true
				nodes = append(nodes, node{from.at, e})
				w.copyTo(probe)
				if wrong = probe.wrong(s); wrong != "" {
					for at := int32(len(nodes) - 1); at > 0; at = nodes[at].from {
						path = append(path, start.describe(nodes[at].by))
					}
					slices.Reverse(path)
					return s, wrong, path
				}
				next = append(next, open{w, int32(len(nodes) - 1)})
				w = start.clone()
			}
		}
		level = next
	}
	return s, "", nil
}

// check runs a search that must find nothing.
func check[W world[W]](t *testing.T, start W, depth int) {
	t.Helper()
	s, wrong, path := run(start, depth)
	if wrong != "" {
		t.Errorf("%s, after: %s", wrong, strings.Join(path, "; "))
	}
	t.Logf("%d states, %d steps, %d events in a row, at most %d ticks beside a free lock", len(s.seen), s.steps, s.depth, s.slowest)
}

// key describes a state: times count from now, and IDs are named in the order in which they are met.
type key struct {
	bytes []byte
	now   mono.Time
	names [64]byte
	named byte
}

func (k *key) put(all ...byte) { k.bytes = append(k.bytes, all...) }

// flags are up to eight bits.
func flags(all ...bool) (b byte) {
	for i, on := range all {
		if on {
			b |= 1 << i
		}
	}
	return b
}

// longAgo is so far in the past that it does not matter how far.
const longAgo = 4

func (k *key) time(at mono.Time) byte {
	if at.IsZero() {
		return 255
	}
	return byte(longAgo + min(max(at-k.now, -longAgo), 100))
}

func (k *key) id(id int8) byte {
	if id > 0 && k.names[id] == 0 {
		k.named++
		k.names[id] = k.named
	}
	return k.names[max(id, 0)]
}

// wait writes the state of a wait.
func (k *key) wait(w *Wait) {
	k.put(byte(w.state), byte(w.send), w.drops, byte(len(w.requests)), k.time(w.at), k.time(w.granted), k.time(w.away),
		flags(w.listed, w.beside, w.inTouch, w.registered, w.refused))
	for _, r := range w.requests {
		k.put(k.id(number(r.ID)), k.time(r.sent))
	}
}

// ids are request IDs by their numbers. 0 stands for a plain request.
var ids = func() (all [64]string) {
	for i := range all {
		all[i] = string(rune(' ' + i))
	}
	return all
}()

func number(id string) int8 { return int8(id[0] - ' ') }
