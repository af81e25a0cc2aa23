package goredisdriver

// What connections tell the listener, and ask it. A server answers in the order
// in which it is asked, so the first unanswered request says what an answer is
// about. An answer that does not fit shows that go-redis has reconnected by
// itself, as it does when a server asks for it; then the connection is given up.

// request is one SUBSCRIBE or UNSUBSCRIBE, or their sharded forms.
type request struct {
	channel   string
	subscribe bool // else unsubscribe
}

// takePending returns a connection's pending requests, which are unanswered from
// then on.
func (l *listener) takePending(c *conn) []request {
	l.mu.Lock()
	defer l.mu.Unlock()
	requests := make([]request, 0, len(c.pending))
	for channel, subscribe := range c.pending {
		requests = append(requests, request{channel, subscribe})
	}
	clear(c.pending)
	c.unanswered = append(c.unanswered, requests...)
	return requests
}

// answered removes the oldest unanswered request, if it is the one that an answer
// is to.
func (c *conn) answered(to request) bool {
	if len(c.unanswered) == 0 || c.unanswered[0] != to {
		return false
	}
	c.unanswered = c.unanswered[1:]
	return true
}

// inUse reports whether subscriptions are assigned to a connection.
func (l *listener) inUse(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.assigned > 0
}

// wants reports whether a channel is wanted on a connection.
func (l *listener) wants(c *conn, channel string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wanted[channel] == c
}

// subscribed notes that the server has confirmed a subscription. It reports
// whether that was expected, and whether the channel is still wanted here. One
// that is not is unsubscribed.
func (l *listener) subscribed(c *conn, channel string) (expected, wanted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.answered(request{channel, true}) {
		return false, false
	}
	if wanted = l.wanted[channel] == c; wanted {
		delete(l.failures, channel)
	} else if _, requested := c.pending[channel]; !requested {
		c.unsubscribe(channel)
	}
	return true, wanted
}

// unsubscribed notes that the server has ended a subscription. If nobody requested
// that, the slot has moved, and the subscription moves after it.
func (l *listener) unsubscribed(c *conn, channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.answered(request{channel, false}) {
		return
	}
	l.remove(c, channel)
}

// refused notes that the server has answered a request with an error. It reports
// whether there was a request.
func (l *listener) refused(c *conn) (expected bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(c.unanswered) == 0 {
		return false
	}
	refused := c.unanswered[0]
	c.unanswered = c.unanswered[1:]
	if refused.subscribe {
		l.remove(c, refused.channel)
	}
	return true
}

// remove takes a subscription from a connection, to be assigned again. The caller
// holds mu.
func (l *listener) remove(c *conn, channel string) {
	if l.wanted[channel] != c {
		return
	}
	delete(c.pending, channel)
	l.postpone([]string{channel})
}

// lost notes the end of a connection. Its subscriptions are assigned again.
func (l *listener) lost(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c.key)
	if l.closed {
		return
	}
	channels := make([]string, 0, c.assigned)
	for channel, at := range l.wanted {
		if at == c {
			channels = append(channels, channel)
		}
	}
	l.postpone(channels)
}
