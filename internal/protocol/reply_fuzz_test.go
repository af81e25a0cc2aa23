package protocol

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/anyreply"
	"github.com/holdfast-go/holdfast/internal/script"
)

// FuzzReplies has every decoder read what a server may have sent. None may panic, and none may
// make something of it that no lock can be.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{
		"", "\x32\x00", "\x87", "\xa0\x00", "\xa1\x04\x32\x0c\x5a\x04abcd\x32\x0c\x32\x05", "\xa0\x04\x32\x0e\x00\x32\x0c\x32\x0f", "\xa4\x01\xc8\x01\x5a\x051 2 3",
		"\xa4\x04\x32\x0c\x5a\x80\x0a\xc8\x04\x5a\x01o\x5a\x00\x5a\x80\x0c\x5a\x80\x0c\xc8\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := script.Parse(anyreply.New(data).Reply())
		if err != nil {
			return
		}
		lives := func(what string, ttl time.Duration) {
			if ttl < -1 {
				t.Errorf("%s: %v", what, ttl)
			}
		}
		refusal := ReadRefusal(r)
		lives("ReadRefusal", refusal.TTL)
		// Neither never, where there is a time, nor over and over again.
		if hint, err := r.Int(2); err == nil && hint >= 0 && refusal.Retry < min(time.Duration(hint), time.Hour) {
			t.Errorf("ReadRefusal: again after %v of %v", refusal.Retry, r.Rest)
		}
		if s, err := ReadState(r); err == nil {
			lives("ReadState", s.TTL)
			for _, h := range s.Holders {
				lives("a holder", h.TTL)
			}
		}
		if s, err := ReadShortage(r); err == nil {
			lives("ReadShortage", s.TTL)
		}
		if k, err := ParseClient(r); err == nil {
			for _, held := range append(k.Held, k.Age) {
				if held < 0 {
					t.Errorf("ParseClient: %v", held)
				}
			}
		}
		_, _, _ = ReadCount(r)
		for i := range 3 {
			_, _ = (PermitSet{}).ReadRenewal(r, i)
			_, _ = (countOnly{}).ReadRenewal(r, i)
		}
		_ = r.Untold()
	})
}
