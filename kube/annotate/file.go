package annotate

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lockstep/kube/documents"
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

// read reads a file into w.files. why is the reason that the file cannot be changed, "" if it can.
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
		return "its file does not exist", nil
	}
	if err != nil {
		return "", err
	}
	if real != filepath.Join(top, filepath.FromSlash(name)) {
		return "its file is a symbolic link to " + real, nil
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
		eol, inserted, indent := t.eol(p.line-1), h.head, strings.Repeat(" ", h.indent)
		for _, l := range lines {
			inserted += indent + l + eol
		}
		out = append(out, insertion{h.at, atLineStart(t.raw, h.at, inserted, eol)})
		for _, g := range h.guards {
			out = append(out, g.insertions(indent, eol)...)
		}
	}
	return out
}

// guardedValues returns the paths of the values that print the other annotations of a place.
func (p *place) guardedValues() (paths [][]string) {
	for _, h := range p.holes {
		for _, g := range h.guards {
			if g.value != nil {
				paths = append(paths, g.value)
			}
		}
	}
	return paths
}

// atLineStart moves the line end of an insertion to its start if the file ends without one.
func atLineStart(raw string, at int, lines, eol string) string {
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

// File is a file of the chart that Write changes.
type File struct {
	// Name is its path relative to the chart's directory, with slashes. Lines is the
	// number of inserted lines.
	Name  string `json:"name"`
	Lines int    `json:"lines"`

	rewrite documents.Rewrite
}

// Write writes all files, or none. It returns an error if a file has changed since it was read.
func (r *Result) Write() error {
	var all []documents.Rewrite
	for _, f := range r.Files {
		all = append(all, f.rewrite)
	}
	return documents.WriteAll(all)
}

// plain matches strings that need no quotes in YAML, except those that YAML reads as another type.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

// scalar formats a string as YAML on one line of a template.
func scalar(s string) string {
	if plain.MatchString(s) && !slices.Contains([]string{"true", "false", "yes", "no", "on", "off", "null", "y", "n"}, strings.ToLower(s)) {
		return s
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.Contains(s, "{{") {
		return "{{ " + strconv.Quote(s) + " | quote }}"
	}
	return documents.Quote(s)
}
