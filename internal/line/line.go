package line

import (
	"container/list"
	"sync"
	"time"
)

// atHead is the head channel of those who find no line before them.
var atHead = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Lines are all lines of one client. Use [New].
type Lines struct {
	// listen subscribes to a lock's channel until the returned function is
	// called. It must ring for every message and every subscription.
	listen func(channel string, ring func()) (leave func())

	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	places  list.List // of *Place; the front is the head
	bell    chan struct{}
	token   chan struct{}
	taken   bool
	silence func() // ends the subscription; nil if there is none
	askAt   time.Time
	refusal error
}

// Place is one waiter's place in a line.
type Place struct {
	lines   *Lines
	key     string
	channel string
	line    *line
	element *list.Element
	head    chan struct{} // closed when the place is at the head
}

// New returns an empty set of lines.
func New(listen func(channel string, ring func()) (leave func())) *Lines {
	return &Lines{listen: listen, lines: map[string]*line{}}
}

// Enter takes the last place in the line with the given key. Channel, the same
// for all in one line, is what the line listens to.
func (ls *Lines) Enter(key, channel string) *Place {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[key]
	if l == nil {
		l = &line{bell: make(chan struct{}, 1), token: make(chan struct{}, 1)}
		ls.lines[key] = l
	}
	p := &Place{lines: ls, key: key, channel: channel, line: l, head: atHead}
	if l.places.Len() > 0 {
		p.head = make(chan struct{})
	}
	p.element = l.places.PushBack(p)
	return p
}

// Stands reports whether anybody stands in the line with the given key.
func (ls *Lines) Stands(key string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.lines[key] != nil
}

// Head is closed when all who came before have left.
func (p *Place) Head() <-chan struct{} { return p.head }

// Bell receives when the head should ask again. Rings that nobody has heard yet
// count as one.
func (p *Place) Bell() <-chan struct{} { return p.line.bell }

// Ring rings the line's bell.
func (p *Place) Ring() { p.line.ring() }

func (l *line) ring() {
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// Token takes the right to try, when sending on the channel succeeds. The one
// who took it calls Taken at once, and Done when the try is over.
func (p *Place) Token() chan<- struct{} { return p.line.token }

// Taken keeps the line in being until Done.
func (p *Place) Taken() {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	p.line.taken = true
}

// Done gives the token back.
func (p *Place) Done() {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	<-p.line.token
	p.line.taken = false
	p.lines.tidy(p.key, p.line)
}

// Listen subscribes the line, if it is not subscribed yet. It stays subscribed
// until its last place has left.
func (p *Place) Listen() {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	if p.line.silence == nil {
		p.line.silence = p.lines.listen(p.channel, p.line.ring)
	}
}

// AskAt says when to ask again without being rung, and why the last try was
// refused.
func (p *Place) AskAt(at time.Time, refusal error) {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	p.line.askAt = at
	if refusal != nil {
		p.line.refusal = refusal
	}
}

// Next returns what AskAt said last: the zero time and nil if nobody has asked.
func (p *Place) Next() (at time.Time, refusal error) {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	return p.line.askAt, p.line.refusal
}

// Leave gives the place up, whether or not it has come to the head.
func (p *Place) Leave() {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	l := p.line
	wasHead := l.places.Front() == p.element
	l.places.Remove(p.element)
	if next := l.places.Front(); next != nil && wasHead {
		close(next.Value.(*Place).head) //nolint:forcetypeassert // places holds nothing else
	}
	if l.places.Len() == 0 {
		l.forget()
	}
	p.lines.tidy(p.key, l)
}

// forget drops what the heads have learnt: nobody is left to keep it true.
func (l *line) forget() {
	if l.silence != nil {
		l.silence()
		l.silence = nil
	}
	l.askAt, l.refusal = time.Time{}, nil
	select {
	case <-l.bell:
	default:
	}
}

// tidy forgets a line that nobody needs. ls.mu is held.
func (ls *Lines) tidy(key string, l *line) {
	if l.places.Len() == 0 && !l.taken && ls.lines[key] == l {
		delete(ls.lines, key)
	}
}
