package survey

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// RightError says that the Redis user lacks a right that reading needs.
type RightError struct {
	// Command is what it may not do, as HGET or PUBSUB NUMSUB, or not with Key.
	Command string
	// Key is the key or channel that it was about; empty if it was about none.
	Key string
	// Err is what Redis said.
	Err error
}

func (e *RightError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("the Redis user may not call %s: %v", e.Command, e.Err)
	}
	return fmt.Sprintf("the Redis user may not call %s, or not with %q: %v", e.Command, e.Key, e.Err)
}

func (e *RightError) Unwrap() error { return e.Err }

// explain names the right that is missing, if that is what an error is about.
func explain(cmd redis.Cmder) error {
	err := cmd.Err()
	if err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		return err
	}
	word := func(i int) string {
		if i >= len(cmd.Args()) {
			return ""
		}
		return fmt.Sprint(cmd.Args()[i])
	}
	command, key := strings.ToUpper(word(0)), word(1)
	switch command {
	case "PUBSUB":
		command, key = command+" "+strings.ToUpper(key), ""
	case "SCAN":
		key = ""
	}
	return &RightError{Command: command, Key: key, Err: err}
}

// exec sends a pipeline. Where data is of another type than asked for, it counts as none; the
// calls without an answer have zero values.
func exec(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	if err == nil {
		return nil
	}
	for _, cmd := range cmds {
		if err := explain(cmd); !harmless(err) {
			return err
		}
	}
	if harmless(err) { // otherwise nothing was sent
		return nil
	}
	return err
}

// harmless reports whether an error says no more than that there is no such data.
func harmless(err error) bool {
	return err == nil || errors.Is(err, redis.Nil) || strings.HasPrefix(err.Error(), "WRONGTYPE")
}
