package survey

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

const (
	// pageSize is how many keys a call of SCAN looks at, and longPageSize how many behind a page with names that are too long: SCAN
	// returns names whole.
	pageSize, longPageSize = 1000, 10
	// batchSize is how many locks are read at once.
	batchSize = 100
)

// Options say what [Scan] is to find.
type Options struct {
	// Match is a pattern of names as Redis has them, in which * is any text, ? any byte and [a-c] one
	// of a set; empty: all. Without any of these it is one name, which is read and not looked for.
	Match string
	// Kinds are the kinds to find; none: all.
	Kinds []Kind
	// Held leaves out what nobody holds.
	Held bool
	// All adds what nothing but its form speaks for: fenced locks of which only the token is left,
	// and integers that may be anything. It looks at every string.
	All bool
	// Progress, if not nil, is told how many keys have been looked at, of how many about. It is
	// called as found is.
	Progress func(done, total int64)
}

// Scan calls found for each lock, semaphore and latch, one call at a time, from any goroutine. It
// returns when all have been found, or with found's first error, ctx's, a [*RightError], or Redis's. tooLong is how many names it has
// met by then that are longer than a lock's may be: it reads nothing of those.
func Scan(ctx context.Context, rdb redis.UniversalClient, options Options, found func(Lock) error) (tooLong int, err error) {
	r, err := newReader(ctx, rdb, mostScanned)
	if err != nil {
		return 0, err
	}
	s := newScan(r, options, found)
	err = s.all(ctx)
	return len(s.tooLong), err
}

// all makes all passes.
func (s *scan) all(ctx context.Context) error {
	if s.Match != "" && !isPattern(s.Match) {
		s.All = true
		return s.emit(ctx, s.short([]string{s.Match}, protocol.MaxName))
	}
	passes := s.passes()
	if s.Progress != nil {
		if err := s.size(ctx, len(passes)); err != nil {
			return err
		}
	}
	return eachPrimary(ctx, s.rdb, func(ctx context.Context, node redis.Cmdable) error {
		for _, p := range passes {
			if err := s.run(ctx, node, p); err != nil {
				return err
			}
		}
		if s.wants(Semaphore, Latch) && !s.Held {
			return s.listenedTo(ctx, node)
		}
		return nil
	})
}

// scan is one call of [Scan].
type scan struct {
	Options
	*reader

	found func(Lock) error
	seed  maphash.Seed

	mu          sync.Mutex // held while found and Progress are called
	seen        map[uint64]struct{}
	tooLong     map[uint64]struct{} // likewise, of names that are none of a lock
	done, total int64
	failed      error // found's
}

func newScan(r *reader, options Options, found func(Lock) error) *scan {
	return &scan{Options: options, reader: r, found: found, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}, tooLong: map[uint64]struct{}{}}
}

// pass is one way through all keys of a node.
type pass struct {
	keyType, match string
	longest        int // key that may be or tell of a lock
	// names are those of the locks that some keys lead to.
	names func(ctx context.Context, node redis.Cmdable, keys []string) ([]string, error)
}

// wants reports whether one of these kinds is to be found.
func (s *scan) wants(kinds ...Kind) bool {
	return len(s.Kinds) == 0 || slices.ContainsFunc(kinds, func(k Kind) bool { return slices.Contains(s.Kinds, k) })
}

// passes are those that are needed. Each costs as much, so there are few: one for locks by their own
// keys, and one for all that stands beside a lock, which has a brace in its key, and is known by its name.
func (s *scan) passes() (all []pass) {
	if s.wants(Mutex, Fair, RW) {
		all = append(all, pass{typeHash, s.Match, protocol.MaxName, s.locks})
	}
	if !s.Held || s.wants(Permits) {
		all = append(all, pass{"", "*{*", protocol.MaxKey, s.beside})
	}
	if s.All && !s.Held && s.wants(Semaphore, Permits, Latch, Number) {
		all = append(all, pass{typeString, s.Match, protocol.MaxName, s.numbers})
	}
	return all
}

// size counts the keys.
func (s *scan) size(ctx context.Context, passes int) error {
	return eachPrimary(ctx, s.rdb, func(ctx context.Context, node redis.Cmdable) error {
		asked := node.DBSize(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.total += asked.Val() * int64(passes)
		return explain(asked)
	})
}

// run makes one pass.
func (s *scan) run(ctx context.Context, node redis.Cmdable, p pass) error {
	size := int64(pageSize)
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		page := scanPage(ctx, node, cursor, p, size)
		if err := explain(page); err != nil {
			return err
		}
		var keys []string
		keys, cursor = page.Val()
		short := s.short(keys, p.longest)
		names, err := p.names(ctx, node, short)
		if err != nil {
			return err
		}
		if err := s.emit(ctx, names); err != nil {
			return err
		}
		s.tell(size)
		if size = pageSize; len(short) < len(keys) {
			size = longPageSize
		}
	}
	return nil
}

func scanPage(ctx context.Context, node redis.Cmdable, cursor uint64, p pass, size int64) *redis.ScanCmd {
	if p.keyType == "" {
		return node.Scan(ctx, cursor, p.match, size)
	}
	return node.ScanType(ctx, cursor, p.match, size, p.keyType)
}

// short returns the keys or channels that are not longer than that, and counts the others; with a pattern those alone that are names
// themselves, since it is not known whether another one's name matches.
func (s *scan) short(keys []string, longest int) []string {
	return slices.DeleteFunc(keys, func(key string) bool {
		if len(key) <= longest {
			return false
		}
		if s.Match == "" || longest == protocol.MaxName {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tooLong[maphash.String(s.seed, key)] = struct{}{}
		}
		return true
	})
}

// tell tells that another page is done.
func (s *scan) tell(size int64) {
	if s.Progress == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done += size
	s.Progress(min(s.done, s.total), s.total)
}

// locks are those of the hashes that look like locks. It reads no value that may be long.
func (s *scan) locks(ctx context.Context, node redis.Cmdable, keys []string) (found []string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	pipe := node.Pipeline()
	lengths, modes := make([]*redis.IntCmd, len(keys)), make([]*redis.Cmd, len(keys))
	for i, key := range keys {
		lengths[i], modes[i] = pipe.HLen(ctx, key), pipe.Do(ctx, "HSTRLEN", key, modeField)
	}
	if err := exec(ctx, pipe); err != nil {
		return nil, err
	}
	pipe = node.Pipeline()
	single := map[string]*redis.StringSliceCmd{}
	for i, key := range keys {
		switch mode, _ := modes[i].Int(); {
		case mode == len(Reads) || mode == len(Writes):
			found = append(found, key)
		case lengths[i].Val() == 1:
			single[key] = pipe.HKeys(ctx, key)
		}
	}
	if len(single) == 0 {
		return found, nil
	}
	if err := exec(ctx, pipe); err != nil {
		return nil, err
	}
	for key, fields := range single {
		if len(fields.Val()) == 1 && protocol.IsOwner(fields.Val()[0]) {
			found = append(found, key)
		}
	}
	return found, nil
}

// beside are the names of the locks that keys or channels belong to.
func (s *scan) beside(ctx context.Context, _ redis.Cmdable, keys []string) (found []string, err error) {
	var unsure [][]string
	for _, key := range keys {
		if !s.tells(key) {
			continue
		}
		switch possible := protocol.NamesOf(key); {
		case !slices.ContainsFunc(possible, s.named):
		case len(possible) > 1:
			unsure = append(unsure, possible)
		case len(possible) == 1:
			found = append(found, possible[0])
		}
	}
	sure, err := s.decide(ctx, unsure)
	return append(found, slices.DeleteFunc(sure, func(name string) bool { return !s.named(name) })...), err
}

// tells reports whether a key beside a lock tells of one that is wanted. There may be many tokens of locks that nobody holds.
func (s *scan) tells(key string) bool {
	return (s.All || !protocol.IsTokenKey(key)) && (!s.Held || protocol.IsPermitsKey(key))
}

// named reports whether a name is one of those to be found.
func (s *scan) named(name string) bool { return s.Match == "" || matches(s.Match, name) }

// decide takes of names that share a key the one that is there, or else the first.
func (s *scan) decide(ctx context.Context, all [][]string) (names []string, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	pipe := s.rdb.Pipeline()
	there := make([]*redis.IntCmd, len(all))
	for i, possible := range all {
		there[i] = pipe.Exists(ctx, possible[0])
	}
	others := make([]*redis.IntCmd, len(all))
	for i, possible := range all {
		others[i] = pipe.Exists(ctx, possible[1])
	}
	if err := exec(ctx, pipe); err != nil {
		return nil, err
	}
	for i, possible := range all {
		which := 0
		if there[i].Val() == 0 && others[i].Val() > 0 {
			which = 1
		}
		names = append(names, possible[which])
	}
	return names, nil
}

// numbers are the strings that are integers and nothing else's.
func (s *scan) numbers(ctx context.Context, node redis.Cmdable, keys []string) (found []string, err error) {
	pipe := node.Pipeline()
	texts := map[string]*redis.StringCmd{}
	for _, key := range keys {
		if !protocol.Auxiliary(key) {
			texts[key] = pipe.GetRange(ctx, key, 0, longestInteger)
		}
	}
	if len(texts) == 0 {
		return nil, nil
	}
	if err := exec(ctx, pipe); err != nil {
		return nil, err
	}
	for key, text := range texts {
		if _, ok := protocol.Integer(text.Val()); ok {
			found = append(found, key)
		}
	}
	return found, nil
}

// listenedTo finds the semaphores and latches for which somebody waits at a node.
func (s *scan) listenedTo(ctx context.Context, node redis.Cmdable) error {
	for _, pattern := range protocol.CounterChannels() {
		channels, err := s.channels(ctx, node, pattern)
		if err != nil {
			return err
		}
		names, err := s.beside(ctx, node, s.short(channels, protocol.MaxKey))
		if err != nil {
			return err
		}
		if err := s.emit(ctx, names); err != nil {
			return err
		}
	}
	return nil
}

// emit reads locks that were not found yet, and tells of those that are wanted.
func (s *scan) emit(ctx context.Context, names []string) error {
	for batch := range slices.Chunk(s.unseen(names), batchSize) {
		results, err := s.read(ctx, batch)
		if err != nil {
			return err
		}
		if err := s.tellOf(results); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// tellOf tells of those of some locks that are wanted, and were not told of.
func (s *scan) tellOf(results []result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range results {
		key := maphash.String(s.seed, one.Name)
		_, twice := s.seen[key]
		if twice || s.failed != nil || one.err != nil || !s.wanted(one.Lock) {
			continue
		}
		s.seen[key] = struct{}{}
		s.failed = s.found(one.Lock)
	}
	return s.failed
}

// unseen are the names that were not found yet.
func (s *scan) unseen(names []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, seen := s.seen[maphash.String(s.seed, name)]
		return seen
	})
}

// wanted reports whether a lock is to be told of.
func (s *scan) wanted(l Lock) bool {
	switch {
	case !s.wants(l.Kind), s.Held && l.State != Held, !s.All && !l.Ours:
		return false
	case s.All:
		return true
	}
	// A fenced lock of which only the token is left is free, and nobody wants it.
	return l.Kind != Mutex || l.State == Held || l.Waiting > 0 || l.Listeners > 0
}
