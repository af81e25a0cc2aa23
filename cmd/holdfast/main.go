// Command holdfast runs commands under locks that live in Redis, shows who holds such locks,
// and what they do. They are the locks of the holdfast library, and of Redisson.
//
//	holdfast demo
//	holdfast demo fair
//	holdfast run --redis redis://localhost:6379 nightly-report -- ./report.sh --full
//	holdfast ls --redis redis://localhost:6379 --held
//	holdfast bench --redis redis://localhost:6379
package main

import (
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
}
