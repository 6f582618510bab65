package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// formats are the formats of --report.
var formats = map[string]func(*Outcome) []byte{"junit": (*Outcome).JUnit, "json": (*Outcome).JSON, "markdown": (*Outcome).Markdown}

// files are written when an operation is over, and tell what has become of it.
type files []reportFile

type reportFile struct {
	format, name string
	// plain tells that the file is no regular one, a pipe for instance, and is
	// written to as it is.
	plain bool
}

// newFiles returns the files that are asked for, each as FORMAT=FILE. It makes
// sure that they can be written as far as that can be known before.
func newFiles(asked []string) (files, error) {
	var all files
	for _, a := range asked {
		format, name, ok := strings.Cut(a, "=")
		if !ok || name == "" || formats[format] == nil {
			return nil, fmt.Errorf("--report %s: use junit=FILE, json=FILE or markdown=FILE", a)
		}
		file := reportFile{format: format, name: name}
		if err := file.probe(); err != nil {
			return nil, fmt.Errorf("--report %s: the file cannot be written: %w", a, err)
		}
		if slices.ContainsFunc(all, func(other reportFile) bool { return other.name == file.name && !file.plain }) {
			return nil, fmt.Errorf("--report %s: another report is to go to that file", a)
		}
		all = append(all, file)
	}
	return all, nil
}

// write writes the files, each at once: who reads one meanwhile sees what was
// there before.
func (f files) write(o *Outcome) error {
	var all error
	for _, file := range f {
		if err := file.write(formats[file.format](o)); err != nil {
			all = errors.Join(all, fmt.Errorf("the %s report could not be written: %w", file.format, err))
		}
	}
	return all
}

// probe looks whether the file can be written, and leaves nothing behind.
func (r *reportFile) probe() error {
	if target, err := filepath.EvalSymlinks(r.name); err == nil {
		r.name = target // the link stays
	}
	info, err := os.Stat(r.name)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory", r.name)
	case err == nil && !info.Mode().IsRegular():
		r.plain = true
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	beside, err := r.beside()
	if err != nil {
		return err
	}
	return errors.Join(beside.Close(), os.Remove(beside.Name()))
}

// beside makes a file beside the report's, with the rights that the user's umask
// gives: what reads reports is often somebody else.
func (r *reportFile) beside() (*os.File, error) {
	dir, base := filepath.Split(r.name)
	for n := 0; ; n++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf(".%s.%d-%d", base, os.Getpid(), n)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

func (r *reportFile) write(text []byte) error {
	if r.plain {
		f, err := os.OpenFile(r.name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	}
	f, err := r.beside()
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), r.name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it is no use to anybody
	}
	return err
}
