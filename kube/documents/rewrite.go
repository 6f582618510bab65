package documents

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Rewrite is the old and the new content of a file.
type Rewrite struct {
	Path     string
	Old, New []byte
}

// WriteAll writes all files, or none: it first writes temporary files with the same modes, then
// renames them. Links are kept. It returns an error if a file no longer has its old content.
func WriteAll(files []Rewrite) error {
	var temps []string
	defer func() {
		for _, name := range temps {
			_ = os.Remove(name) // if it was not renamed
		}
	}()
	files = slices.Clone(files)
	for n, f := range files {
		real, err := filepath.EvalSymlinks(f.Path)
		var now []byte
		if err == nil {
			now, err = os.ReadFile(real)
		}
		if err == nil && string(now) != string(f.Old) {
			err = errors.New("it changed after it was read; run the command again")
		}
		var temp string
		if err == nil {
			temp, err = stage(real, f.New)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w; nothing was written", f.Path, err)
		}
		files[n].Path = real
		temps = append(temps, temp)
	}
	for i, f := range files {
		if err := os.Rename(temps[i], f.Path); err != nil {
			return errors.Join(fmt.Errorf("write %s: %w", f.Path, err), restore(files[:i]))
		}
	}
	return nil
}

// stage writes a temporary file beside the file at path, with its mode, and returns its name.
func stage(path string, data []byte) (string, error) {
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
		temp, err := stage(f.Path, f.Old)
		if err == nil {
			err = os.Rename(temp, f.Path)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("restore %s: %w", f.Path, err))
		}
	}
	return all
}
