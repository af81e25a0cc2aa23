package survey

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

const (
	// mostRead is how many holders, and how many waiters, [Read] returns, and mostScanned how many
	// [Scan] does for each lock.
	mostRead    = 1000
	mostScanned = 100
	// mostHolds is how many holds of one reader are looked at.
	mostHolds = 16
	// longestText is how much of a string is read: an integer, or who is next at a semaphore.
	longestText = 2048
	// noKey is PTTL's answer for a key that is not there.
	noKey = -2
	// longestName is how much of each text is taken that a client says of itself: the library writes no more.
	longestName = 128
	// longestEntry is how much is taken of what stands in a line.
	longestEntry = protocol.MaxOwner + len(":write")
	// longestNaming is how long a cluster is asked for who the clients are.
	longestNaming = time.Second
	// neverExpires is the score of a permit without a lease.
	neverExpires = 922337203685477
	// nearPlaces is how many of those in line listen while one of Redisson's holds the lock.
	nearPlaces = 8
	// unkeptReader is for how long a reader of Redisson's is believed in whose keys are gone.
	unkeptReader = 30 * time.Second
)

// Read returns the lock, semaphore or latch of a name. The error is [ErrNotFound] if there is none,
// [ErrOtherKind] if the key is something else, a [*RightError], or Redis's.
func Read(ctx context.Context, rdb redis.UniversalClient, name string) (Lock, error) {
	r, err := newReader(ctx, rdb, mostRead)
	if err != nil {
		return Lock{}, err
	}
	read, err := r.read(ctx, []string{name})
	if err != nil {
		return Lock{}, err
	}
	return read[0].Lock, read[0].err
}

// reader reads locks. Each call takes four round trips, on a cluster five, however many locks it is for.
type reader struct {
	rdb     redis.UniversalClient
	sharded bool // whether messages are
	most    int64
}

func newReader(ctx context.Context, rdb redis.UniversalClient, most int64) (*reader, error) {
	sharded, err := isSharded(ctx, rdb)
	return &reader{rdb: rdb, sharded: sharded, most: most}, err
}

// result is what came of one name.
type result struct {
	Lock

	err error // [ErrNotFound] or [ErrOtherKind]
}

// raw is what was read of one name.
type raw struct {
	facts

	name               string
	ttl                time.Duration
	fields             []field
	fieldCount         int64
	inLine             []string    // the entries of the waitlist of a plain lock
	inLineSince        []time.Time // when each of them joined
	inLineCount        int64
	asks               *redis.SliceCmd // what they have asked; nil if there are none
	fairAsks           *redis.SliceCmd // likewise, of queue
	queue              []string        // who stands in that of a fair one
	queueLength        int64
	heartbeats, scores []redis.Z
	token              string
	held               []redis.Z
	heldCount, expired int64
	found              []Holder
	readHolds          map[string][]*redis.DurationCmd
	who                map[string]*redis.SliceCmd
}

// read reads all of these names.
func (r *reader) read(ctx context.Context, names []string) ([]result, error) {
	all := make([]*raw, len(names))
	for i, name := range names {
		all[i] = &raw{name: name}
	}
	at, err := r.types(ctx, all)
	if err != nil {
		return nil, err
	}
	if err := r.values(ctx, all, at); err != nil {
		return nil, err
	}
	if err := r.details(ctx, all); err != nil {
		return nil, err
	}
	if err := r.listeners(ctx, all); err != nil {
		return nil, err
	}
	results := make([]result, len(all))
	for i, one := range all {
		results[i] = one.result(at)
	}
	return results, nil
}

// types asks what stands at the names, and for the time.
func (r *reader) types(ctx context.Context, all []*raw) (time.Time, error) {
	pipe := r.rdb.Pipeline()
	now := pipe.Time(ctx)
	types := make([]*redis.StatusCmd, len(all))
	for i, one := range all {
		types[i] = pipe.Type(ctx, one.name)
	}
	if err := exec(ctx, pipe); err != nil {
		return time.Time{}, err
	}
	for i, one := range all {
		one.keyType = types[i].Val()
	}
	return now.Val(), nil
}

// values reads what stands at the names and beside them.
func (r *reader) values(ctx context.Context, all []*raw, at time.Time) error {
	pipe := r.rdb.Pipeline()
	then := make([]func(), 0, 3*len(all))
	for _, one := range all {
		switch one.keyType {
		case typeHash:
			then = append(then, r.askHash(ctx, pipe, one), r.askStanding(ctx, pipe, one), r.askLine(ctx, pipe, one))
		case typeString:
			then = append(then, r.askNumber(ctx, pipe, one, at), r.askStanding(ctx, pipe, one))
		case typeNone:
			then = append(then, r.askNumber(ctx, pipe, one, at), r.askStanding(ctx, pipe, one), r.askLine(ctx, pipe, one))
		}
	}
	if err := exec(ctx, pipe); err != nil {
		return err
	}
	for _, take := range then {
		take()
	}
	return nil
}

// askHash asks for a hash and returns what takes the answers.
func (r *reader) askHash(ctx context.Context, pipe redis.Pipeliner, one *raw) func() {
	ttl, mode := pttl(ctx, pipe, one.name), pipe.HGet(ctx, one.name, modeField)
	length, some := pipe.HLen(ctx, one.name), pipe.HScan(ctx, one.name, 0, "", r.most)
	return func() {
		one.ttl, one.fieldCount, one.mode = expiry(ttl.Val()), length.Val(), mode.Val()
		pairs, _ := some.Val()
		for pair := range slices.Chunk(pairs, 2) {
			one.fields = append(one.fields, field{pair[0], pair[1]})
			if pair[0] == modeField {
				one.mode = pair[1] // of the same moment as the holders
			}
		}
		if one.mode != Reads && one.mode != Writes {
			one.mode = ""
		}
		if len(one.fields) == 0 { // there is no such hash: it was given back since its type was asked
			one.keyType, one.ttl, one.fieldCount = typeNone, 0, 0
			return
		}
		slices.SortFunc(one.fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
		one.fields = slices.CompactFunc(one.fields, func(a, b field) bool { return a.name == b.name })
		one.fieldCount = max(one.fieldCount, int64(len(one.fields))) // others may have come in between
		one.found, one.lock = holders(one.mode, one.fields)
		one.lock = one.lock && !protocol.Auxiliary(one.name) // what is asked stands under owners, too
	}
}

// pttl asks for how long a key lives: the value is a number of milliseconds. That of go-redis's own method overflows for a key that lives for
// more than 292 years, as anybody may have written one.
func pttl(ctx context.Context, pipe redis.Pipeliner, key string) *redis.DurationCmd {
	cmd := redis.NewDurationCmd(ctx, 1, "pttl", key)
	_ = pipe.Process(ctx, cmd) // it only collects
	return cmd
}

// askStanding asks for the line of a plain or a read-write lock, or of a semaphore.
func (r *reader) askStanding(ctx context.Context, pipe redis.Pipeliner, one *raw) func() {
	line := protocol.WaitlistKey(one.name)
	count, inLine := pipe.ZCount(ctx, line, "-inf", "+inf"), pipe.ZRangeWithScores(ctx, line, 0, r.most-1)
	return func() {
		one.inLineCount = count.Val()
		for _, z := range inLine.Val() {
			field := entryOf(z)
			one.inLine, one.inLineSince = append(one.inLine, field), append(one.inLineSince, arrival(z.Score))
		}
		one.writer = slices.ContainsFunc(one.inLine, func(field string) bool { return strings.HasSuffix(field, writerSuffix) })
		one.line = one.inLineCount > 0
	}
}

// askLine asks for the line of a fair lock, and the token.
func (r *reader) askLine(ctx context.Context, pipe redis.Pipeliner, one *raw) func() {
	queue := protocol.FairQueueKey(one.name)
	length, first := pipe.LLen(ctx, queue), pipe.LRange(ctx, queue, 0, r.most-1)
	scores := pipe.ZRangeWithScores(ctx, protocol.FairTimeoutsKey(one.name), 0, r.most-1)
	heartbeats := pipe.ZRangeWithScores(ctx, protocol.FairHeartbeatsKey(one.name), 0, r.most+1)
	token := pipe.GetRange(ctx, protocol.TokenKey(one.name), 0, longestText)
	return func() {
		one.queueLength, one.queue = length.Val(), first.Val()
		for i, owner := range one.queue {
			one.queue[i] = begin(owner, longestEntry)
		}
		one.scores, one.heartbeats = scores.Val(), heartbeats.Val()
		one.facts.token = token.Val() != ""
		one.token = token.Val()
		one.facts.queue, one.facts.heartbeats = one.queueLength > 0, len(one.heartbeats) > 0
	}
}

// askNumber asks for what may be a semaphore or a latch.
func (r *reader) askNumber(ctx context.Context, pipe redis.Pipeliner, one *raw, at time.Time) func() {
	permits, now := protocol.PermitsKey(one.name), strconv.FormatInt(at.UnixMilli(), 10)
	text := &redis.StringCmd{}
	if one.keyType == typeString {
		text = pipe.GetRange(ctx, one.name, 0, longestText)
	}
	ttl := pttl(ctx, pipe, one.name)
	live := &redis.ZRangeBy{Min: "(" + now, Max: "+inf", Count: r.most}
	held := pipe.ZRangeByScoreWithScores(ctx, permits, live)
	first := pipe.ZRange(ctx, permits, 0, 0) // it may have expired
	count, expired := pipe.ZCount(ctx, permits, live.Min, live.Max), pipe.ZCount(ctx, permits, "0", now)
	next := pipe.GetRange(ctx, protocol.ReservationKey(one.name), 0, longestText)
	calls, zero := pipe.Exists(ctx, protocol.CallsKey(one.name)), pipe.Exists(ctx, protocol.LatchZeroKey(one.name))
	return func() {
		one.ttl, one.text, one.next = expiry(ttl.Val()), text.Val(), next.Val()
		if one.text == "" && ttl.Val() == noKey { // likewise
			one.keyType = typeNone
		}
		one.held, one.heldCount, one.expired = held.Val(), count.Val(), expired.Val()
		one.calls, one.zero = calls.Val() > 0, zero.Val() > 0
		one.permits = len(first.Val()) > 0 && len(first.Val()[0]) == protocol.PermitID
		for _, z := range one.held {
			id, _ := z.Member.(string)
			one.permits = one.permits && len(id) == protocol.PermitID
		}
	}
}

// details asks for how long readers hold the lock, what is asked by those in line, and who the clients are.
func (r *reader) details(ctx context.Context, all []*raw) error {
	pipe := r.rdb.Pipeline()
	names := pipe
	if _, ok := r.rdb.(*redis.ClusterClient); ok {
		names = r.rdb.Pipeline() // at any node
	}
	for _, one := range all {
		one.readHolds, one.who = map[string][]*redis.DurationCmd{}, map[string]*redis.SliceCmd{}
		for _, h := range one.found {
			one.askWho(ctx, names, h.Owner)
			if h.Mode != Reads {
				continue
			}
			for i := range min(h.Count, mostHolds) {
				key := protocol.ReadHoldKey(one.name, h.Owner, int(h.Count-i))
				one.readHolds[h.Owner] = append(one.readHolds[h.Owner], pttl(ctx, pipe, key))
			}
		}
		for _, z := range one.held {
			one.askWho(ctx, names, permitID(z))
		}
		for _, owner := range slices.Concat(one.inLine, one.queue) {
			one.askWho(ctx, names, strings.TrimSuffix(owner, writerSuffix))
		}
		one.askAsks(ctx, pipe)
		one.askWho(ctx, names, one.nextOwner())
	}
	if pipe.Len() > 0 {
		if err := exec(ctx, pipe); err != nil {
			return err
		}
	}
	if names == pipe || names.Len() == 0 {
		return nil
	}
	return execNames(ctx, names)
}

// askAsks asks what those in line have asked last.
func (one *raw) askAsks(ctx context.Context, pipe redis.Pipeliner) {
	if len(one.queue) > 0 {
		one.fairAsks = pipe.HMGet(ctx, protocol.RequestsKey(one.name), one.queue...)
	}
	if len(one.inLine) == 0 {
		return
	}
	one.asks = pipe.HMGet(ctx, protocol.RequestsKey(one.name), one.inLine...)
}

// execNames asks who the clients are. They may be at other nodes than the locks; so if those are away, the
// names are left out, and nothing else.
func execNames(ctx context.Context, pipe redis.Pipeliner) error {
	asking, cancel := context.WithTimeout(ctx, longestNaming)
	defer cancel()
	var lacking *RightError
	if err := exec(asking, pipe); errors.As(err, &lacking) {
		return err
	}
	return ctx.Err()
}

// begin is the beginning of a text, without the rest in memory.
func begin(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.Clone(text[:longest])
}

// entryOf is what stands in a line, as much as is taken of it.
func entryOf(z redis.Z) string {
	entry, _ := z.Member.(string)
	return begin(entry, longestEntry)
}

// permitID is a permit's id as people see it.
func permitID(z redis.Z) string {
	return hex.EncodeToString([]byte(begin(entryOf(z), protocol.MaxOwner/2)))
}
