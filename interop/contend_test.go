package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// asking is a contender's connection to the referee; java's Contender speaks the
// same.
type asking struct {
	conn    net.Conn
	answers *bufio.Scanner
}

func toReferee(port, kind, name string) (*asking, error) {
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintln(conn, "go", kind, name)
	return &asking{conn: conn, answers: bufio.NewScanner(conn)}, err
}

// tell says something to the referee and returns whether to go on.
func (a *asking) tell(what string) (bool, error) {
	if _, err := fmt.Fprintln(a.conn, what); err != nil {
		return false, err
	}
	if !a.answers.Scan() {
		return false, fmt.Errorf("the referee has left: %w", errors.Join(a.answers.Err(), net.ErrClosed))
	}
	return a.answers.Text() == "go", nil
}

// contend takes a lock again and again, and tells the referee each time that it
// has it and before it gives it back. It returns how often.
func contend(ctx context.Context, s *goSide, kind, name, port string) (holds int, err error) {
	take, err := s.taker(ctx, kind, name)
	if err != nil {
		return 0, err
	}
	referee, err := toReferee(port, kind, name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, referee.conn.Close()) }()
	for on := true; on; holds++ {
		token, giveBack, err := take()
		if err != nil {
			return holds, err
		}
		if on, err = referee.tell(fmt.Sprint("enter ", token)); err != nil {
			return holds, err
		}
		if _, err := referee.tell("leave"); err != nil {
			return holds, err
		}
		if err := giveBack(); err != nil {
			return holds, err
		}
	}
	return holds, nil
}

// turns takes a lock again and again for a time, as a client of its own, and returns how often. The words are how long each
// hold takes, us, and the time, ms.
func (t *goThread) turns(kind, name string, words []string) (turns int, err error) {
	if t.alone == nil {
		opened, err := clients(t.side.settings)
		if err != nil {
			return 0, err
		}
		t.alone = &goSide{clients: opened, client: opened[0]}
	}
	take, err := t.alone.taker(background, kind, name)
	if err != nil {
		return 0, err
	}
	inside := number(words, 0) / 1000
	for end := time.Now().Add(number(words, 1)); time.Now().Before(end); turns++ {
		_, giveBack, err := take()
		if err != nil {
			return turns, err
		}
		if inside > 0 {
			time.Sleep(inside)
		}
		if err := giveBack(); err != nil {
			return turns, err
		}
	}
	return turns, nil
}

// taker returns what takes a lock, or a permit of a semaphore, and returns the
// fencing token, or 0, and what gives it back.
func (s *goSide) taker(ctx context.Context, kind, name string) (func() (int64, func() error, error), error) {
	if kind == "semaphore" {
		sem := s.client.NewUnleasedSemaphore(name)
		return func() (int64, func() error, error) {
			return 0, func() error { return sem.Release(1) }, sem.Acquire(ctx, 1)
		}, nil
	}
	var l holdfast.Locker
	var err error
	if kind == "permits" {
		l = s.client.NewPermitSemaphore(name)
	} else {
		l, err = s.lock(kind, name)
	}
	return func() (int64, func() error, error) {
		h, err := l.Lock(ctx)
		if err != nil {
			return 0, nil, err
		}
		return h.Token(), h.Unlock, nil
	}, err
}

// rounds waits for a latch, round after round, and counts it down before if it is
// told to. The words are whether it counts, how many do, and the referee's port.
func rounds(ctx context.Context, l *holdfast.Latch, words []string) (rounds int, err error) {
	counters, err := strconv.Atoi(words[1])
	if err != nil {
		return 0, err
	}
	referee, err := toReferee(words[2], "latch", l.Name())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, referee.conn.Close()) }()
	for on := true; on; rounds++ {
		set, err := l.TrySetCount(ctx, counters)
		if err != nil {
			return rounds, err
		}
		if _, err := referee.tell("set " + strconv.FormatBool(set)); err != nil {
			return rounds, err
		}
		if strings.HasPrefix(words[0], "t") {
			if _, err := referee.tell("down"); err != nil {
				return rounds, err
			}
			if err := l.CountDown(); err != nil {
				return rounds, err
			}
		}
		if err := l.Await(ctx); err != nil {
			return rounds, err
		}
		if on, err = referee.tell("through"); err != nil {
			return rounds, err
		}
	}
	return rounds, nil
}
