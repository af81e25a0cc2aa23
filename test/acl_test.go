package test

import "slices"

// rights are what a user of a kind may do.
type rights struct {
	commands []string
	keys     []string // patterns; NAME is the lock's name, and so it is in the channels
	channels []string
}

// and returns both.
func (r rights) and(more rights) rights {
	return rights{
		commands: slices.Concat(r.commands, more.commands),
		keys:     slices.Concat(r.keys, more.keys),
		channels: slices.Concat(r.channels, more.channels),
	}
}

var (
	plainRights        = rights{}
	tokenRights        = rights{}
	pollingRights      = rights{}
	readerRights       = rights{}
	writerRights       = rights{}
	writersFirstRights = rights{}
	fairRights         = rights{}
)
