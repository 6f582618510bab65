package annotate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// file is a file that lines may be inserted into.
type file struct {
	raw    string
	path   string
	text   *text // nil if it cannot be parsed as a template
	places []*place
	insert []insertion
}

// insertion is text to insert at a byte offset.
type insertion struct {
	at   int
	text string
}

// read reads a file into w.files. why is the reason if the file cannot be changed.
func (w *writer) read(name string) (why string, err error) {
	if w.files[name] != nil {
		return "", nil
	}
	at := filepath.Join(w.src.Dir, filepath.FromSlash(name))
	top, err := filepath.EvalSymlinks(w.src.Dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(at)
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file", nil
	}
	if err != nil {
		return "", err
	}
	if want := filepath.Join(top, filepath.FromSlash(name)); real != want {
		return "its file is a link to " + real, nil
	}
	raw, err := os.ReadFile(real)
	if err != nil {
		return "", err
	}
	f := &file{raw: string(raw), path: real}
	if t, ok := parse(f.raw); ok && path.Base(name) != "Chart.yaml" && path.Base(name) != "requirements.yaml" {
		f.text = t
		f.places = t.places()
	}
	w.files[name] = f
	return "", nil
}

// insertions returns the insertions of annotation lines at a place.
func (p *place) insertions(t *text, lines []string) []insertion {
	var out []insertion
	for _, h := range p.holes {
		eol := t.eol(p.line - 1)
		var b strings.Builder
		b.WriteString(h.head)
		for _, l := range lines {
			b.WriteString(strings.Repeat(" ", h.indent) + l + eol)
		}
		out = append(out, insertion{h.at, whole(t.raw, h.at, b.String(), eol)})
	}
	return out
}

// whole moves the line end of an insertion to its start if the text before it has none.
func whole(raw string, at int, lines, eol string) string {
	if at == len(raw) && raw != "" && !strings.HasSuffix(raw, "\n") {
		return eol + strings.TrimSuffix(lines, eol)
	}
	return lines
}

// with returns the contents of the file with insertions.
func (f *file) with(insert []insertion) []byte {
	insert = slices.Clone(insert)
	slices.SortStableFunc(insert, func(a, b insertion) int { return a.at - b.at })
	var b strings.Builder
	at := 0
	for _, i := range insert {
		b.WriteString(f.raw[at:i.at])
		b.WriteString(i.text)
		at = i.at
	}
	b.WriteString(f.raw[at:])
	return []byte(b.String())
}

// added returns the number of lines to insert.
func (f *file) added() int {
	n := 0
	for _, i := range f.insert {
		n += strings.Count(i.text, "\n")
	}
	return n
}

// File is a file of the chart that changes.
type File struct {
	// Name is its path relative to the chart's directory, with slashes. Lines is the
	// number of inserted lines.
	Name  string `json:"name"`
	Lines int    `json:"lines"`

	path     string
	old, new []byte
}

// Write writes all files, or none: it first writes temporary files with the same modes, then
// renames them. It returns an error if a file has changed since it was read.
func (r *Result) Write() (err error) {
	var temps []string
	defer func() {
		for _, name := range temps {
			_ = os.Remove(name) // if it was not renamed
		}
	}()
	for _, f := range r.Files {
		name, err := f.stage()
		if err != nil {
			return fmt.Errorf("write %s: %w; nothing was written", f.path, err)
		}
		temps = append(temps, name)
	}
	for i, f := range r.Files {
		if err := os.Rename(temps[i], f.path); err != nil {
			err = fmt.Errorf("write %s: %w", f.path, err)
			return errors.Join(err, r.undo(r.Files[:i]))
		}
	}
	return nil
}

// stage writes the new contents to a temporary file and returns its name.
func (f File) stage() (string, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return "", err
	}
	now, err := os.ReadFile(f.path)
	if err != nil {
		return "", err
	}
	if string(now) != string(f.old) {
		return "", errors.New("it changed after it was read; run the command again")
	}
	return writeTemp(f.path, f.new, info.Mode().Perm())
}

// writeTemp writes a temporary file into the directory of the file name, and returns its name.
func writeTemp(name string, data []byte, mode fs.FileMode) (string, error) {
	temp, err := os.CreateTemp(filepath.Dir(name), ".lockstep-")
	if err != nil {
		return "", err
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close())
	if err != nil {
		_ = os.Remove(temp.Name())
		return "", err
	}
	return temp.Name(), nil
}

// undo restores the old contents of files.
func (r *Result) undo(files []File) error {
	var all error
	for _, f := range files {
		info, err := os.Stat(f.path)
		if err == nil {
			var name string
			if name, err = writeTemp(f.path, f.old, info.Mode().Perm()); err == nil {
				err = os.Rename(name, f.path)
			}
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("restore %s: %w", f.path, err))
		}
	}
	return all
}

// scalar formats a string as YAML on one line.
func scalar(s string) string {
	plain := s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}) < 0 && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		plain = false
	}
	if plain {
		return s
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.Contains(s, "{{") {
		return "{{ " + strconv.Quote(s) + " | quote }}"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
