package goredisdriver

import (
	"errors"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// classify turns an error of go-redis into one of the port. written is false
// if the command was certainly never written to any connection.
func classify(err error, written bool) *driver.Error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return driver.ConnectionError(err, !written || neverConnected(err))
	}
	failure := driver.ServerError(reply.Error(), err)
	if driverkit.IsRefusal(reply.Error()) {
		failure.Transient, failure.MayHaveRun = true, false
	}
	if !written {
		// The reply is to the HELLO or AUTH that opens a connection.
		failure.MayHaveRun = false
	}
	return failure
}

// neverConnected reports whether an error arose before there was a connection. It
// matters after MOVED or ASK: the first node was written to, but it refused.
func neverConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrPoolExhausted) ||
		errors.Is(err, redis.ErrClosed)
}

// isReply reports whether a server sent the error.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
