//go:build unix

package remote

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUser reports whether the user owns a file.
func ownedByUser(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// openToOthers reports whether other users have permissions on a file.
func openToOthers(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }
