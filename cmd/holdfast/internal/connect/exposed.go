package connect

import (
	"fmt"
	"os"
	"runtime"
)

// Exposed returns a warning if other users of this machine may read a file with a secret, which it calls by what, such as "password". It
// returns nothing if they may not, or if that is not known: the file is a pipe, or the system has other rights than those of Unix.
func Exposed(file, what string) string {
	const others = 0o044
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS == "windows" || !info.Mode().IsRegular() || info.Mode().Perm()&others == 0 {
		return ""
	}
	return fmt.Sprintf("other users may read the %s file %s, whose mode is %#o; chmod 600 keeps it from them", what, file, info.Mode().Perm())
}
