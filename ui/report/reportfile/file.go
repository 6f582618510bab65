package reportfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// file is a file of --report. It is written once, when the operation has ended.
type file struct {
	format, name string
	// special is set if the file exists but is not regular, for example a pipe. It is written in place.
	special bool
}

// parseFiles parses FORMAT=FILE arguments and checks that the files can be written. There are at least two formats.
func parseFiles(args []string, formats ...string) (files []file, err error) {
	for _, arg := range args {
		format, name, ok := strings.Cut(arg, "=")
		if !ok || name == "" || !slices.Contains(formats, format) {
			last := len(formats) - 1
			return nil, fmt.Errorf("--report %s: use %s=FILE or %s=FILE", arg, strings.Join(formats[:last], "=FILE, "), formats[last])
		}
		f := file{format: format, name: name}
		if err := f.probe(); err != nil {
			if path, ok := errors.AsType[*fs.PathError](err); ok { // its path is that of a temporary file
				err = path.Err
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("--report %s: folder %s does not exist", arg, filepath.Dir(name))
			}
			return nil, fmt.Errorf("--report %s: cannot write the file: %w", arg, err)
		}
		if slices.ContainsFunc(files, func(other file) bool { return other.name == f.name && !f.special }) {
			return nil, fmt.Errorf("--report %s: another --report already writes that file", arg)
		}
		files = append(files, f)
	}
	return files, nil
}

// probe checks that the file can be written, and leaves the directory as it was. It replaces the name of a link with
// that of its target.
func (f *file) probe() error {
	if target, err := filepath.EvalSymlinks(f.name); err == nil {
		f.name = target
	}
	info, err := os.Stat(f.name)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory", f.name)
	case err == nil && !info.Mode().IsRegular():
		f.special = true
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	temp, err := f.createTemp()
	if err != nil {
		return err
	}
	return errors.Join(temp.Close(), os.Remove(temp.Name()))
}

// createTemp creates a temporary file in the same directory. Other users often read reports, so unlike os.CreateTemp
// it leaves the permissions to the umask.
func (f *file) createTemp() (*os.File, error) {
	dir, base := filepath.Split(f.name)
	for n := 0; ; n++ {
		name := filepath.Join(dir, fmt.Sprintf(".%s.%d-%d", base, os.Getpid(), n))
		temp, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return temp, err
		}
	}
}

// write writes the file. Unless it is special, it is replaced atomically.
func (f *file) write(text []byte) error {
	if f.special {
		out, err := os.OpenFile(f.name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return errors.Join(err, out.Close())
	}
	temp, err := f.createTemp()
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), f.name)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}
