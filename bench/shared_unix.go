//go:build unix

package main

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newRoomFile makes a file with an empty room in it.
func newRoomFile(name string) error {
	if errClock != nil {
		return errClock // moments of two processes could not be compared
	}
	file, err := os.Create(name) //nolint:gosec // our own directory
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(int64(unsafe.Sizeof(room{}))), file.Close())
}

// openRoom maps the room in a file. Everybody who has done so is in the same room. It
// must not be used after close.
func openRoom(name string) (r *room, closeRoom func() error, err error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0) //nolint:gosec // our own directory
	if err != nil {
		return nil, nil, err
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(unsafe.Sizeof(room{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err := errors.Join(err, file.Close()); err != nil { // the mapping stays
		return nil, nil, err
	}
	return (*room)(unsafe.Pointer(&memory[0])), func() error { return unix.Munmap(memory) }, nil //nolint:gosec // a page is aligned, and a room has no pointers
}
