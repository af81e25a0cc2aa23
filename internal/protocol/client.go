package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// ClientTTL is how long Redis keeps what a client says of itself, unless it says it again, or a hold outlasts the client.
const ClientTTL = 6 * time.Minute

// clientDigits is how much of a client's UUID its key has: 64 bits, four of them the version.
const clientDigits = len("99f17b91-c6cc-889e")

// tenantBytes is how many bytes of its clients' UUIDs stand for a tenant. The other 32 bits of [clientDigits] are a client's own,
// four of them the version: of some thousand clients of a tenant two may have one key, which is for people only.
const tenantBytes = 4

// TenantMark is what the UUIDs of a tenant's clients begin with, as bytes; nothing if the name is empty.
func TenantMark(name string) []byte {
	if name == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(name))
	return sum[:tenantBytes]
}

// TenantPrefix is that as it stands in names of keys and channels, with the dash behind it; empty if the name is.
func TenantPrefix(name string) string {
	if name == "" {
		return ""
	}
	return hex.EncodeToString(TenantMark(name)) + "-"
}

// PermitPrefix is how many bytes of its client's UUID a permit's id begins with.
const PermitPrefix = 8

// PermitMark stands behind that. By it and the version before, those who wait know which permits are Redisson's: see lua/permits.lua.
const PermitMark = "h"

// ClientKey returns the key of what the client says of itself that an owner, or a permit's id in
// hexadecimal digits, belongs to. It is empty if that is no client of holdfast's: Redisson's
// UUIDs are of another version. Of one in sixteen of Redisson's permits it is that of a key that
// is not there.
func ClientKey(owner string) string {
	id, _, isOwner := strings.Cut(owner, ":")
	switch {
	case isOwner && len(id) == len("99f17b91-c6cc-889e-88f6-8265bee545cf"):
		id = id[:clientDigits]
	case !isOwner && len(id) == 32:
		id = id[:8] + "-" + id[8:12] + "-" + id[12:16]
	default:
		return ""
	}
	for i, digit := range []byte(id) {
		dash := i == 8 || i == 13
		if dash != (digit == '-') || !dash && !strings.ContainsRune("0123456789abcdef", rune(digit)) {
			return ""
		}
	}
	if !Ours(id) {
		return ""
	}
	return clientPrefix + ":" + id
}

var clientScripts = struct{ write, read *driver.Script }{
	write: load("client", "write"),
	read:  load("client", "read"),
}

// Client is what a client says of itself.
type Client struct {
	Program, Version, Host string
	PID                    int
	// Age is how long ago it began.
	Age time.Duration
}

// HeldField is the field of the client's hash with since when an owner, a writer or not, or a permit
// holds a lock.
func HeldField(owner, name string) string {
	return strings.TrimSuffix(owner, WriterField("")) + " " + name
}

// WriteClient asks that the hash at key says what a client says of itself; anew, and nothing that
// it has said before. Redis keeps it for ttl. It says for how long the fields of held have been so, and those of
// ended are no more.
func WriteClient(key string, c Client, ttl time.Duration, anew bool, held map[string]time.Duration, ended []string) script.Request {
	args := []string{
		flag(anew), millis(ttl), c.Program, c.Version, c.Host, strconv.Itoa(c.PID), millis(c.Age),
		strconv.Itoa(len(held)),
	}
	for field, age := range held {
		args = append(args, field, millis(age))
	}
	return script.Request{Script: clientScripts.write, Keys: []string{key}, Args: append(args, ended...)}
}

// ReadClient asks what a client says of itself, and since when these fields are so.
func ReadClient(key string, fields []string) script.Request {
	return script.Request{Script: clientScripts.read, Keys: []string{key}, Args: fields}
}

// Known is what Redis knows of a client.
type Known struct {
	Client
	// Held says for how long each field has been so that was asked about; 0 if that is not known.
	Held []time.Duration
}

// ParseClient reads the reply to ReadClient. Redis may know nothing: all is zero then. What makes no
// sense is left out, since anybody may write there.
func ParseClient(r script.Reply) (Known, error) {
	texts, err := r.List(0)
	if err != nil || len(texts) < 5 {
		return Known{}, err
	}
	found := Known{Client: Client{Program: texts[0], Version: texts[1], Host: texts[2], Age: since(r.Now, texts[4])}}
	found.PID, _ = strconv.Atoi(texts[3]) // 0 if it makes no sense
	for _, at := range texts[5:] {
		found.Held = append(found.Held, since(r.Now, at))
	}
	return found, nil
}

// since is how long ago a moment was, ms since the epoch; 0 if that makes no sense.
func since(now int64, at string) time.Duration {
	then, err := strconv.ParseInt(at, 10, 64)
	if err != nil || then <= 0 || then > now {
		return 0
	}
	return Milliseconds(now - then)
}
