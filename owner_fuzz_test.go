package holdfast

import (
	"context"
	"encoding/hex"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// FuzzParseOwner: what is accepted is written as it was read, and is not another owner.
func FuzzParseOwner(f *testing.F) {
	for _, seed := range []string{
		"", ":", "a:1", "a:-1", "a:01", "a:+1", "a:1:2", "a:9223372036854775808", "99f17b91-c6cc-889e-88f6-8265bee545cf:7", "99f17b91c6cc889e6842f68265bee545", ":1", "a:1\n",
		"a", "a:", "a:b", "a:1.5", "a: 1", strings.Repeat("0", 31), strings.Repeat("0", 34), strings.Repeat("A", 32), strings.Repeat("g", 32),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		owner, err := ParseOwner(text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || !owner.IsZero() {
				t.Errorf("%v, %v", owner, err)
			}
			return
		}
		client, number, numbered := strings.Cut(text, ":")
		if !numbered {
			if raw, err := hex.DecodeString(text); err != nil || len(raw) != 16 || strings.ToLower(text) != text {
				t.Errorf("%q is accepted as the id of a permit", text)
			}
		} else if n, err := strconv.ParseInt(number, 10, 64); err != nil || client == "" || strconv.FormatInt(n, 10) != number {
			t.Errorf("%q is accepted, and could be written in another way", text)
		}
		written, _ := owner.MarshalText()
		var again Owner
		if err := again.UnmarshalText(written); err != nil || again != owner || owner.String() != text || owner.IsZero() {
			t.Errorf("%q became %q, %v", text, again, err)
		}
	})
}

// recorder notes what is sent, and grants it.
type recorder struct {
	hostileServer

	calls []driver.Call
}

func (r *recorder) Eval(_ context.Context, call driver.Call) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
	return time.Now().UnixMilli(), nil
}

// sent are the arguments of what was sent first; nil if nothing was.
func (r *recorder) sent() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) == 0 {
		return nil
	}
	return r.calls[0].Args
}

// leaseArgument is what scripts take for a lease.
var leaseArgument = regexp.MustCompile(`^[1-9][0-9]{0,11}$`)

// FuzzLeases: whatever time is asked for, it is refused before anything is sent, or the script gets a lease that
// it takes, of the same length but for the part of a millisecond.
func FuzzLeases(f *testing.F) {
	for _, seed := range []int64{0, 1, -1, 999_999, 1_000_000, 1_500_000, int64(MinLease), int64(MaxLease), int64(MaxLease) + 1, 1<<63 - 1, -1 << 63, int64(time.Minute)} {
		f.Add(seed, int64(0), byte(0))
		f.Add(seed, seed, byte(1))
	}
	f.Fuzz(func(t *testing.T, lease, other int64, which byte) {
		synctest.Test(t, func(t *testing.T) { useLease(t, time.Duration(lease), time.Duration(other), which) })
	})
}

func useLease(t *testing.T, d, more time.Duration, which byte) {
	server := &recorder{}
	var options []ClientOption
	how := []TryOption{FixedLease(d)}
	switch which % 4 {
	case 1:
		how = []TryOption{RenewedLease(d)}
	case 2:
		options, how = []ClientOption{WithLease(d), WithMargin(more)}, nil
	case 3:
		options = []ClientOption{WithMaxHold(more)}
	}
	c, err := New(server, append(options, WithoutIdentity(), WithTimeout(100*time.Millisecond))...)
	if err != nil {
		if !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
		return
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	hold, err := c.NewMutex("x").TryLock(t.Context(), how...)
	switch {
	case errors.Is(err, ErrInvalid):
		if sent := server.sent(); sent != nil {
			t.Errorf("refused, and %q was sent", sent)
		}
		return
	case err != nil && !errors.Is(err, ErrLost): // a lease of a millisecond may be over at once
		t.Fatal(err)
	}
	said := server.sent()[3]
	ms, err := strconv.ParseInt(said, 10, 64)
	if !leaseArgument.MatchString(said) || err != nil || ms != d.Milliseconds() && which%4 != 2 && which%4 != 3 {
		t.Errorf("%v became %s, %v", d, said, err)
	}
	if hold != nil && time.Until(hold.Deadline()) > time.Duration(ms)*time.Millisecond {
		t.Errorf("a lease of %s ms is trusted for %v", said, time.Until(hold.Deadline()))
	}
}
