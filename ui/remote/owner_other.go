//go:build !unix

package remote

import "io/fs"

// These systems have no Unix owners and modes. The user's own directories are trusted.

func ownedByUser(fs.FileInfo) bool  { return true }
func openToOthers(fs.FileInfo) bool { return false }
