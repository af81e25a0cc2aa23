package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// profile is where profiles of the run go; empty names mean none.
type profile struct{ cpu, mem string }

// around runs f under the profilers.
func (p profile) around(f func() error) (err error) {
	if p.mem != "" {
		runtime.MemProfileRate = 4096 // before anything of interest is allocated
	}
	if p.cpu == "" {
		return errors.Join(f(), p.writeMem())
	}
	file, err := os.Create(p.cpu)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, p.writeMem())
}

func (p profile) writeMem() (err error) {
	if p.mem == "" {
		return nil
	}
	file, err := os.Create(p.mem)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	runtime.GC() // the profile is of what the last collection has seen
	return pprof.Lookup("allocs").WriteTo(file, 0)
}
