package goredisdriver

// What links tell the listener, and ask it. A server answers in the order in
// which it is asked, so the orders that are sent and not answered say what an
// answer is about. One that does not fit shows that go-redis has reconnected by
// itself, as it does when a server asks for it; then the link is given up.

// order is one command of a link.
type order struct {
	channel string
	join    bool // subscribe, else unsubscribe
}

// takeOrders returns a link's orders, which from then on await their answers.
func (l *listener) takeOrders(k *link) []order {
	l.mu.Lock()
	defer l.mu.Unlock()
	orders := make([]order, 0, len(k.orders))
	for channel, join := range k.orders {
		orders = append(orders, order{channel, join})
	}
	clear(k.orders)
	k.sent = append(k.sent, orders...)
	return orders
}

// next takes the order that an answer belongs to, if it is what it should be.
func (k *link) next(want order) bool {
	if len(k.sent) == 0 || k.sent[0] != want {
		return false
	}
	k.sent = k.sent[1:]
	return true
}

// wanted reports whether there are wishes on a link.
func (l *listener) wanted(k *link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(k.channels) > 0
}

// wants reports whether a channel is wished for on a link.
func (l *listener) wants(k *link, channel string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := k.channels[channel]
	return ok
}

// joined notes that the server has confirmed a subscription. It tells whether
// that was expected, and whether the channel is still wished for here. One that
// is not is ended.
func (l *listener) joined(k *link, channel string) (expected, wanted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !k.next(order{channel, true}) {
		return false, false
	}
	if _, wanted = k.channels[channel]; wanted {
		l.wishes[channel].failures = 0
	} else if _, ordered := k.orders[channel]; !ordered {
		k.leave(channel)
	}
	return true, wanted
}

// left notes that the server has ended a subscription. If that was its own
// idea, the slot has moved, and the wish moves after it.
func (l *listener) left(k *link, channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.next(order{channel, false}) {
		return
	}
	l.remove(k, channel)
}

// refused notes that the server has answered an order with an error. It tells
// whether there was an order.
func (l *listener) refused(k *link) (expected bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(k.sent) == 0 {
		return false
	}
	refused := k.sent[0]
	k.sent = k.sent[1:]
	if refused.join {
		l.remove(k, refused.channel)
	}
	return true
}

// remove takes a wish from a link, to be placed again. The caller holds mu.
func (l *listener) remove(k *link, channel string) {
	if _, ok := k.channels[channel]; !ok {
		return
	}
	delete(k.channels, channel)
	delete(k.orders, channel)
	l.postpone([]string{channel})
}

// lost notes the end of a link. Its wishes are placed again.
func (l *listener) lost(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.links, k.key)
	if l.closed {
		return
	}
	channels := make([]string, 0, len(k.channels))
	for channel := range k.channels {
		channels = append(channels, channel)
	}
	l.postpone(channels)
}
