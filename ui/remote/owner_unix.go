//go:build unix

package remote

import (
	"io/fs"
	"os"
	"syscall"
)

// ours reports whether a file belongs to the user.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// shared reports whether others have rights on a file.
func shared(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }
