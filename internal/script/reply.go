package script

import "fmt"

// WrongType is how Redis, and our scripts, say that a key is another kind of object.
const WrongType = "WRONGTYPE"

// Code is the first element of a reply.
type Code int64

// What the codes mean; the header of each script says it in its own terms.
const (
	Done    Code = 1
	Refused Code = 0
	Late    Code = -1
	Changed Code = -2
	Upgrade Code = -3
)

// Reply is a script's reply, taken apart.
type Reply struct {
	Code Code
	Now  int64 // the server's time, ms since the epoch
	Rest []any
}

// Parse takes a reply apart. An error means that something other than our
// script has answered.
//
// A number alone is the server's time, and says that all was done and that there is
// nothing else to say: a list costs Redis as much as one or two commands.
func Parse(reply any) (Reply, error) {
	if now, ok := reply.(int64); ok && now > 1e11 { // else it is no time: ours begins in 2000
		return Reply{Code: Done, Now: now}, nil
	}
	items, ok := reply.([]any)
	if !ok || len(items) < 2 {
		return Reply{}, fmt.Errorf("unexpected reply %T", reply)
	}
	code, ok := items[0].(int64)
	now, ok2 := items[1].(int64)
	if !ok || !ok2 {
		return Reply{}, fmt.Errorf("unexpected reply [%T %T]", items[0], items[1])
	}
	return Reply{Code: Code(code), Now: now, Rest: items[2:]}, nil
}

// Int returns element i of the rest.
func (r Reply) Int(i int) (int64, error) {
	n, ok := r.Number(i)
	if !ok {
		return 0, fmt.Errorf("reply has no integer at %d", i+2)
	}
	return n, nil
}

// Number returns element i of the rest, and whether there is such a number.
func (r Reply) Number(i int) (n int64, ok bool) {
	if i < len(r.Rest) {
		n, ok = r.Rest[i].(int64)
	}
	return n, ok
}

// Untold returns why Redis refused to announce what the script has done; empty
// if it did not. Only a script that gives something back, or makes it available,
// says so.
func (r Reply) Untold() string {
	if len(r.Rest) == 0 {
		return ""
	}
	why, _ := r.Rest[len(r.Rest)-1].(string)
	return why
}

// List returns element i of the rest, each of its elements as text.
func (r Reply) List(i int) ([]string, error) {
	if i >= len(r.Rest) {
		return nil, fmt.Errorf("reply has no list at %d", i+2)
	}
	items, ok := r.Rest[i].([]any)
	if !ok && r.Rest[i] != nil {
		return nil, fmt.Errorf("reply has no list at %d", i+2)
	}
	texts := make([]string, len(items))
	for j, item := range items {
		if texts[j], ok = item.(string); !ok {
			return nil, fmt.Errorf("reply has no text at %d, %d", i+2, j)
		}
	}
	return texts, nil
}

// Text returns element i of the rest.
func (r Reply) Text(i int) (string, error) {
	if i < len(r.Rest) {
		if s, ok := r.Rest[i].(string); ok {
			return s, nil
		}
	}
	return "", fmt.Errorf("reply has no text at %d", i+2)
}
