package throwaway

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// BinaryEnv is the environment variable with the path of lockstep-sandbox, if it is not to be searched for.
const BinaryEnv = "LOCKSTEP_SANDBOX_BIN"

const (
	program = "lockstep-sandbox"
	module  = "lockstep"
)

// ErrNotFound is the error if lockstep-sandbox is nowhere.
var ErrNotFound = errors.New(program + " is not there: run make to build it, or set " + BinaryEnv)

// Command returns what to execute for `lockstep-sandbox ARGS...`: the program's path and its argv. If
// BinaryEnv does not name the program, it is searched for next to this executable, in a test also in bin/ of
// this module, and then in PATH. If it is nowhere, the error is ErrNotFound.
func Command(args []string) (path string, argv []string, err error) {
	if path, err = find(); err != nil {
		return "", nil, err
	}
	return path, append([]string{program}, args...), nil
}

func find() (string, error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		if !executable(path) {
			return "", fmt.Errorf("%s=%s is not a program", BinaryEnv, path)
		}
		return filepath.Abs(path)
	}
	name := program
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	for _, dir := range candidates(self) {
		if path := filepath.Join(dir, name); executable(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return "", ErrNotFound
}

// candidates returns the folders to search before PATH.
func candidates(self string) []string {
	var dirs []string
	if self != "" {
		dirs = append(dirs, filepath.Dir(self))
		if real, err := filepath.EvalSymlinks(self); err == nil && real != self {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	if strings.HasSuffix(strings.TrimSuffix(self, ".exe"), ".test") {
		if wd, err := os.Getwd(); err == nil {
			if root := moduleRoot(wd); root != "" {
				dirs = append(dirs, filepath.Join(root, "bin"))
			}
		}
	}
	return dirs
}

// moduleRoot returns the nearest folder, from dir upwards, that holds this module's go.mod, "" if none does.
func moduleRoot(dir string) string {
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			for line := range strings.Lines(string(data)) {
				if f := strings.Fields(line); len(f) >= 2 && f[0] == "module" && f[1] == module {
					return dir
				}
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}
