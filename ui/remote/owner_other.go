//go:build !unix

package remote

import "io/fs"

// ours and shared leave it to the user's own folders, where there are no owners
// and no modes to look at.
func ours(fs.FileInfo) bool   { return true }
func shared(fs.FileInfo) bool { return false }
