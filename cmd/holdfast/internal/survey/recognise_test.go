package survey

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const (
	goOwner   = "99f17b91-c6cc-889e-88f6-8265bee545cf:12"
	javaOwner = "0b0ee0e1-9a5c-4e5f-8b0e-0f6cbb0a3f7d:57"
)

// TestHolders tells hashes that are locks from those that are somebody else's.
func TestHolders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode   string
		fields []field
		owners []string // with their modes; nil: it is no lock
	}{
		"mutex":           {"", []field{{goOwner, "1"}}, []string{goOwner}},
		"nested":          {"", []field{{javaOwner, "3"}}, []string{javaOwner}},
		"readers":         {Reads, []field{{goOwner, "1"}, {javaOwner, "2"}, {"mode", "read"}}, []string{goOwner + Reads, javaOwner + Reads}},
		"writer":          {Writes, []field{{goOwner + ":write", "1"}, {"mode", "write"}}, []string{goOwner + Writes}},
		"who does both":   {Writes, []field{{goOwner, "1"}, {goOwner + ":write", "1"}, {"mode", "write"}}, []string{goOwner + Reads, goOwner + Writes}},
		"a user":          {"", []field{{"name", "Ann"}}, nil},
		"a counter":       {"", []field{{"hits", "12"}}, nil},
		"settings":        {Reads, []field{{"mode", "read"}, {"since", "12"}}, nil},
		"only a mode":     {Reads, []field{{"mode", "read"}}, nil},
		"a mode, no lock": {"", []field{{"mode", "1"}}, nil},
		"two owners":      {"", []field{{goOwner, "1"}, {javaOwner, "1"}}, nil},
		"no count":        {"", []field{{goOwner, "yes"}}, []string{goOwner}}, // it keeps others out all the same
		"count 0":         {"", []field{{goOwner, "0"}}, []string{goOwner}},
		"strange reader":  {Reads, []field{{goOwner, "1e3"}, {"mode", "read"}}, []string{goOwner + Reads}},
		"sessions":        {"", []field{{goOwner[:36], "1"}}, nil},
		"empty":           {"", nil, nil},
	} {
		found, ok := holders(c.mode, c.fields)
		var owners []string
		for _, h := range found {
			owners = append(owners, h.Owner+h.Mode)
		}
		if ok != (c.owners != nil) || ok && !slices.Equal(owners, c.owners) {
			t.Errorf("%s: %v %q", name, ok, owners)
		}
	}
}

// TestKind is what each kind is recognised by.
func TestKind(t *testing.T) {
	t.Parallel()
	reservation := "2 0 0123456789abcdef"
	for name, c := range map[string]struct {
		facts

		kind  Kind
		ours  bool
		other bool
	}{
		"mutex":                  {facts: facts{keyType: typeHash, lock: true}, kind: Mutex, ours: true},
		"fenced":                 {facts: facts{keyType: typeHash, lock: true, token: true}, kind: Mutex, ours: true},
		"fenced and free":        {facts: facts{keyType: typeNone, token: true}, kind: Mutex, ours: true},
		"mutex, a line":          {facts: facts{keyType: typeHash, lock: true, line: true}, kind: Mutex, ours: true},
		"mutex, fair lately":     {facts: facts{keyType: typeHash, lock: true, line: true, heartbeats: true}, kind: Mutex, ours: true},
		"mutex, free, a line":    {facts: facts{keyType: typeNone, line: true}, kind: Mutex, ours: true},
		"both lines":             {facts: facts{keyType: typeHash, lock: true, line: true, queue: true}, kind: Fair, ours: true},
		"fair, a line":           {facts: facts{keyType: typeHash, lock: true, queue: true}, kind: Fair, ours: true},
		"fair, lately":           {facts: facts{keyType: typeHash, lock: true, heartbeats: true}, kind: Fair, ours: true},
		"fair, its holder":       {facts: facts{keyType: typeHash, lock: true, onOwner: 1}, kind: Fair, ours: true},
		"fair and free":          {facts: facts{keyType: typeNone, queue: true}, kind: Fair, ours: true},
		"read-write":             {facts: facts{keyType: typeHash, lock: true, mode: Reads}, kind: RW, ours: true},
		"read-write, and a list": {facts: facts{keyType: typeHash, lock: true, mode: Reads, queue: true}, kind: RW, ours: true},
		"a writer waits":         {facts: facts{keyType: typeNone, line: true, writer: true}, kind: RW, ours: true},
		"permits":                {facts: facts{keyType: typeString, text: "3", permits: true}, kind: Permits, ours: true},
		"permits, one listens":   {facts: facts{keyType: typeString, text: "3", onPermits: 1}, kind: Permits, ours: true},
		"permits, deleted":       {facts: facts{keyType: typeNone, permits: true}, kind: Permits, ours: true},
		"semaphore, waited for":  {facts: facts{keyType: typeString, text: "0", onSemaphore: 1}, kind: Semaphore, ours: true},
		"semaphore, one is next": {facts: facts{keyType: typeString, text: "-1", next: reservation}, kind: Semaphore, ours: true},
		"semaphore, not set":     {facts: facts{keyType: typeNone, onSemaphore: 1}, kind: Semaphore, ours: true},
		"latch, waited for":      {facts: facts{keyType: typeString, text: "2", onLatch: 2}, kind: Latch, ours: true},
		"latch, set again":       {facts: facts{keyType: typeString, text: "2", zero: true}, kind: Latch, ours: true},
		"latch at zero":          {facts: facts{keyType: typeNone, zero: true}, kind: Latch, ours: true},
		"number, called":         {facts: facts{keyType: typeString, text: "2", calls: true}, kind: Number, ours: true},
		"any number":             {facts: facts{keyType: typeString, text: "2"}, kind: Number},
		"nothing":                {facts: facts{keyType: typeNone}, ours: true},
		"only calls":             {facts: facts{keyType: typeNone, calls: true}, ours: true},
		"a text":                 {facts: facts{keyType: typeString, text: "2 apples"}, other: true},
		"a fraction":             {facts: facts{keyType: typeString, text: "2.5"}, other: true},
		"a padded number":        {facts: facts{keyType: typeString, text: "007"}, other: true},
		"an empty text":          {facts: facts{keyType: typeString}, other: true},
		"a text, waited for":     {facts: facts{keyType: typeString, text: "x", onSemaphore: 1}, other: true},
		"a hash":                 {facts: facts{keyType: typeHash}, other: true},
		"a hash with a mode":     {facts: facts{keyType: typeHash, mode: Reads}, other: true},
		"a list":                 {facts: facts{keyType: typeList}, other: true},
	} {
		kind, ours, err := c.recognise()
		if kind != c.kind || err == nil && ours != c.ours || errors.Is(err, ErrOtherKind) != c.other {
			t.Errorf("%s: %q, ours: %v, %v", name, kind, ours, err)
		}
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"*", "abc", true},
		{"a*", "abc", true},
		{"a*", "ba", false},
		{"*c", "abc", true},
		{"*c", "abcd", false},
		{"*b*", "abc", true},
		{"a*b*c", "a12b34c", true},
		{"a*b*c", "a12b34", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"[ab]", "b", true},
		{"[ab]", "c", false},
		{"[^ab]", "c", true},
		{"[^ab]", "a", false},
		{"[a-c]x", "bx", true},
		{"[c-a]x", "bx", true},
		{"[a-c]", "d", false},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`[\]]`, "]", true},
		{`a\`, `a\`, true},
		{"*a*a*a*a*b", strings.Repeat("a", 2000), false},
		{"orders:*", "orders:42", true},
		{"{o}*", "{o}:1", true},
		{"[", "", false},
		{"**", "x", true},
	} {
		if got := matches(c.pattern, c.text); got != c.want {
			t.Errorf("%q matches %.20q: %v", c.pattern, c.text, got)
		}
	}
}
