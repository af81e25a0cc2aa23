//go:build !go1.26

package driver

import "crypto/sha1" //nolint:gosec // see digest_go126.go

// digest returns the SHA-1 of a script. Under GODEBUG=fips140=only it panics: this needs Go 1.26.
func digest(source string) [sha1.Size]byte {
	return sha1.Sum([]byte(source)) //nolint:gosec // see digest_go126.go
}
