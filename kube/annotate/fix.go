package annotate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/documents"
)

// Fixed are the lines of a chart's files that have one right answer. Nothing has been written yet.
type Fixed struct {
	Lines   []FixedLine
	rewrite []documents.Rewrite
}

// FixedLine is a run of lines, as it is and as it should be. Line counts from 1.
type FixedLine struct {
	File string   `json:"file"`
	Line int      `json:"line"`
	Old  []string `json:"old"`
	New  []string `json:"new"`
}

// Write writes all files, or none. It returns an error if a file has changed since it was read.
func (f *Fixed) Write() error { return documents.WriteAll(f.rewrite) }

// fix replaces the lines from first to last of a file by one line.
type fix struct {
	file        string
	first, last int
	line        string
}

// Fix finds misspelt annotations and names of groups that resemble exactly one known one, and keys and lists that lockstep
// reads and Helm refuses (R1, R3). It reads the text of templates, and keeps a fix only if the chart, rendered with the source's
// values, has the same objects with the same annotations but for the fix, and no more errors than before. The source must be
// rendered with FindIncompatible.
func Fix(ctx context.Context, src Source) (*Fixed, error) {
	w, err := newWriter(ctx, src)
	if err != nil {
		return nil, err
	}
	names := w.misspeltGroups()
	var all []fix
	for _, chart := range slices.Sorted(maps.Keys(w.folders)) {
		for _, name := range append([]string{"Chart.yaml"}, w.templates(chart)...) {
			at, why := w.locate(chart, name)
			if why == "" {
				why, err = w.read(at)
			}
			if err != nil {
				return nil, err
			}
			if why == "" {
				all = append(all, w.files[at].fixes(at, names[chart])...)
			}
		}
	}
	kept, err := w.right(all, names)
	if err != nil {
		return nil, err
	}
	return w.fixed(kept), nil
}

// templates returns the files of a chart that render objects.
func (w *writer) templates(chart string) (names []string) {
	for _, d := range w.src.Rendered.Docs {
		if name, ok := strings.CutPrefix(d.Source, sourcePrefix(chart)); ok && !strings.HasPrefix(name, "charts/") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// minName is the length of the shortest name of a group that counts as misspelt.
const minName = 4

// misspeltGroups returns the names that objects wait for and that no group of their chart has, with the one that is meant, by chart.
func (w *writer) misspeltGroups() map[string]map[string]string {
	groups, meant := map[string][]string{}, map[string]map[string]string{}
	for _, r := range w.src.Rendered.Resources {
		if name := groupOf(r.Annotations); name != "" && !slices.Contains(groups[r.Chart], name) {
			groups[r.Chart] = append(groups[r.Chart], name)
		}
	}
	for _, r := range w.src.Rendered.Resources {
		for _, name := range needsOf(r.Annotations) {
			if near := onlyNear(name, groups[r.Chart]); len(name) >= minName && !slices.Contains(groups[r.Chart], name) && near != "" {
				if meant[r.Chart] == nil {
					meant[r.Chart] = map[string]string{}
				}
				meant[r.Chart][name] = near
			}
		}
	}
	return meant
}

// onlyNear returns the known name that a misspelt one resembles, "" if there is none, or if another one is as similar.
func onlyNear(name string, known []string) string {
	near := plan.NearestName(name, known)
	others := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return k == near })
	if other := plan.NearestName(name, others); other != "" && plan.EditDistance(name, other) == plan.EditDistance(name, near) {
		return ""
	}
	return near
}

// fixes returns the possible fixes of a file. groups are names to replace.
func (f *file) fixes(name string, groups map[string]string) (all []fix) {
	t, ok := parse(f.raw)
	if !ok {
		return nil
	}
	inChart := path.Base(name) == "Chart.yaml"
	for i := 0; i < len(t.lines); i++ {
		l := &t.lines[i]
		key, value, column, ok := l.key()
		if !ok {
			continue
		}
		fixed, last := fixedKey(key, inChart), i
		text := f.raw[l.start+column+len(key) : l.end] // from the colon
		if slices.Contains(charts.AnnotationKeys(), fixed) && len(l.actions) == 0 {
			var list []string
			if value == "" {
				list, last = t.blockList(i, column)
			}
			text = fixedValue(fixed, text, list, groups)
		}
		if line := f.raw[l.start:l.start+column] + fixed + text; line != f.raw[l.start:l.end] || last > i {
			all = append(all, fix{name, i, last, line})
		}
		i = last
	}
	return all
}

// fixedKey returns the key that is meant, as Helm accepts it. Chart.yaml may have keys with two slashes.
func fixedKey(key string, inChart bool) string {
	if inChart && key != "depends-on" && plan.NearestName(key, []string{"depends-on"}) != "" {
		return "depends-on"
	}
	key = cmp.Or(plan.Misspelt(key), key)
	if inChart {
		return key
	}
	return plan.StoredKey(key)
}

// blockList returns the list below a key, one plain item a line, and its last line.
func (t *text) blockList(key, column int) (items []string, last int) {
	last = key
	for i := key + 1; i < len(t.lines); i++ {
		l := &t.lines[i]
		item, ok := strings.CutPrefix(l.text, "- ")
		if !ok || len(l.actions) > 0 || l.inside || l.indent() < column {
			break
		}
		var n kyaml.Node
		if err := kyaml.Unmarshal([]byte(item), &n); err != nil || len(n.Content) != 1 || n.Content[0].Kind != kyaml.ScalarNode || n.Content[0].LineComment != "" {
			return nil, key
		}
		items, last = append(items, n.Content[0].Value), i
	}
	return items, last
}

// fixedValue returns the text after a key, from its colon on. list is the value if it is on the next lines.
func fixedValue(key, text string, list []string, groups map[string]string) string {
	value := strings.TrimSpace(text[1:])
	end := strings.LastIndexByte(value, ']') + 1
	var n kyaml.Node
	switch {
	case list != nil:
		value, end = "", 0
	case strings.HasPrefix(value, "[") && kyaml.Unmarshal([]byte(value[:end]), &n) == nil && len(n.Content) == 1 && n.Content[0].Kind == kyaml.SequenceNode:
		for _, item := range n.Content[0].Content {
			if item.Kind != kyaml.ScalarNode || item.ShortTag() == kyaml.NodeTagNull {
				return text
			}
			list = append(list, item.Value)
		}
	case key == plan.StoredKey(plan.AnnotationGroupDependsOn) || key == plan.StoredKey(plan.AnnotationLayerDependsOn):
		for name, meant := range groups {
			text = strings.ReplaceAll(text, `"`+name+`"`, `"`+meant+`"`)
		}
		return text
	default:
		return text
	}
	for i, name := range list {
		list[i] = cmp.Or(groups[name], name)
	}
	return ": " + documents.Quote(jsonList(list)) + value[end:]
}

// right returns the fixes that have an effect, and that change nothing else.
func (w *writer) right(all []fix, names map[string]map[string]string) (kept []fix, err error) {
	for _, x := range all {
		if failed := w.tryFixes([]fix{x}, names); failed == nil {
			kept = append(kept, x)
		} else if w.ctx.Err() != nil || charts.IsLimit(failed) {
			return nil, failed
		}
	}
	if len(kept) > 1 {
		err = w.tryFixes(kept, names)
	}
	if err != nil {
		return nil, fmt.Errorf("chart %s: the fixes contradict each other: %w; nothing was written", w.src.Dir, err)
	}
	return kept, nil
}

// tryFixes renders the chart with fixes. It returns an error if they have no effect, or if anything else would change.
func (w *writer) tryFixes(fixes []fix, names map[string]map[string]string) error {
	contents := map[string][]byte{}
	for _, r := range w.fixed(fixes).rewrite {
		contents[w.nameOf(r.Path)] = r.New
	}
	before := w.src.Rendered
	r, err := w.renderFiles(contents, w.src.Values)
	if err != nil {
		return err
	}
	if err := w.checkUnchanged(r); err != nil {
		return err
	}
	changed := !reflect.DeepEqual(before.Tree, r.Tree) || incompatible(before) != incompatible(r)
	for i, was := range before.Resources {
		now := r.Resources[i]
		if !maps.Equal(canonical(was.Annotations, names[was.Chart]), canonical(now.Annotations, names[was.Chart])) {
			return fmt.Errorf("other annotations of %s would change", was.Object)
		}
		changed = changed || !maps.Equal(was.Annotations, now.Annotations)
	}
	switch {
	case !changed:
		return errors.New("it has no effect")
	case len(errorsOf(r)) > len(errorsOf(before)):
		return errors.New("the order would have more errors")
	}
	return nil
}

// incompatible counts the annotations that Helm refuses.
func incompatible(r *charts.Rendered) (n int) {
	for _, a := range r.Incompatible {
		n += 1 + a.Others
	}
	return n
}

func (w *writer) nameOf(path string) string {
	for name, f := range w.files {
		if f.path == path {
			return name
		}
	}
	return ""
}

// canonical returns annotations with the keys that are meant, in one spelling, and with the names of groups that are meant.
func canonical(annotations, groups map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range annotations {
		key = plan.StoredKey(cmp.Or(plan.Misspelt(key), key))
		if list, err := plan.ParseList(value); err == nil {
			for i, name := range list {
				list[i] = cmp.Or(groups[name], name)
			}
			value = jsonList(list)
		}
		out[key] = value
	}
	return out
}

// errorsOf returns the errors of the order that lint reports.
func errorsOf(r *charts.Rendered) []plan.Finding {
	return slices.DeleteFunc(plan.AwaitedJobs.Lint(r.Tree, r.Resources), func(f plan.Finding) bool { return f.Severity != plan.SeverityError })
}

// fixed returns the result for fixes, which are in order within each file.
func (w *writer) fixed(fixes []fix) *Fixed {
	out := &Fixed{}
	byFile := map[string][]fix{}
	for _, x := range fixes {
		byFile[x.file] = append(byFile[x.file], x)
	}
	for _, name := range slices.Sorted(maps.Keys(byFile)) {
		f := w.files[name]
		t, _ := parse(f.raw) // fixes has parsed it
		var b strings.Builder
		at := 0
		for _, x := range byFile[name] {
			start, end := t.lines[x.first].start, t.lines[x.last].end
			b.WriteString(f.raw[at:start] + x.line)
			at = end
			old := strings.Split(strings.ReplaceAll(f.raw[start:end], "\r\n", "\n"), "\n")
			out.Lines = append(out.Lines, FixedLine{File: name, Line: x.first + 1, Old: old, New: []string{x.line}})
		}
		b.WriteString(f.raw[at:])
		out.rewrite = append(out.rewrite, documents.Rewrite{Path: f.path, Old: []byte(f.raw), New: []byte(b.String())})
	}
	return out
}
