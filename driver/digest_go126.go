//go:build go1.26

package driver

import (
	"crypto/fips140"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1; no security depends on it.
)

// digest returns the SHA-1 of a script. GODEBUG=fips140=only forbids SHA-1 for security, which this is not.
func digest(source string) (sum [sha1.Size]byte) {
	fips140.WithoutEnforcement(func() { sum = sha1.Sum([]byte(source)) }) //nolint:gosec // see the import
	return sum
}
