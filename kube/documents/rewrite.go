package documents

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Rewrite is a file to write, with its old and new contents.
type Rewrite struct {
	Path     string
	Old, New []byte
}

// WriteAll writes all files, or none: it first writes temporary files with the same modes, then
// renames them. Symbolic links stay links. It returns an error if a file no longer has its old
// contents.
func WriteAll(files []Rewrite) error {
	var temps []string
	defer func() {
		for _, name := range temps {
			_ = os.Remove(name) // if it was not renamed
		}
	}()
	files = slices.Clone(files)
	for i, f := range files {
		temp, err := files[i].stage()
		if err != nil {
			return fmt.Errorf("write %s: %w; nothing was written", f.Path, err)
		}
		temps = append(temps, temp)
	}
	for i, f := range files {
		if err := os.Rename(temps[i], f.Path); err != nil {
			return errors.Join(fmt.Errorf("write %s: %w", f.Path, err), restore(files[:i]))
		}
	}
	return nil
}

// stage resolves links in f.Path, checks the old contents, writes the new contents to a temporary file,
// and returns the name of that file.
func (f *Rewrite) stage() (temp string, err error) {
	target, err := filepath.EvalSymlinks(f.Path)
	if err != nil {
		return "", err
	}
	current, err := os.ReadFile(target)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(current, f.Old) {
		return "", errors.New("the file has changed since it was read; run the command again")
	}
	f.Path = target
	return writeTemp(target, f.New)
}

// writeTemp writes a temporary file beside the file at path, with its mode, and returns its name.
func writeTemp(path string, data []byte) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".lockstep-")
	if err != nil {
		return "", err
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Chmod(info.Mode().Perm()), temp.Sync(), temp.Close())
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return temp.Name(), err
}

// restore writes the old contents of files.
func restore(files []Rewrite) (all error) {
	for _, f := range files {
		temp, err := writeTemp(f.Path, f.Old)
		if err == nil {
			err = os.Rename(temp, f.Path)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("restore %s: %w", f.Path, err))
		}
	}
	return all
}
