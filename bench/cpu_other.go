//go:build !unix

package main

import (
	"errors"
	"time"
)

func processCPU() (time.Duration, error) {
	return 0, errors.New("--held needs a Unix: it asks how much of a core this process uses")
}
