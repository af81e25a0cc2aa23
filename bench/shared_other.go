//go:build !unix

package main

import "errors"

var errNoRoom = errors.New("workloads with several processes need a Unix: they share memory")

func newRoomFile(string) error { return errNoRoom }

func openRoom(string) (*room, func() error, error) { return nil, nil, errNoRoom }
