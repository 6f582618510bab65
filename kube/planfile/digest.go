// Package planfile is the file of a saved plan: what was approved, as digests. It reads no cluster.
package planfile

import (
	"encoding/base64"

	"golang.org/x/crypto/scrypt"
)

// The cost of Slow: one digest takes about 0.1 s and 32 MB.
const (
	scryptN = 1 << 15
	scryptR = 8
	scryptP = 1
)

// Slow returns a digest of content that may contain secret values: each guess at a short one costs as much as this digest, and
// with a random salt nobody can compute guesses beforehand.
func Slow(salt, content []byte) string {
	key, err := scrypt.Key(content, salt, scryptN, scryptR, scryptP, 18)
	if err != nil {
		panic(err) // only for other costs
	}
	return "scrypt:" + base64.RawURLEncoding.EncodeToString(key)
}
