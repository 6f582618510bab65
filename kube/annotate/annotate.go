// Package annotate writes the order of a chart into its files: groups into the
// metadata.annotations of templates, and dependencies of subcharts into Chart.yaml.
//
// It only inserts lines and changes no other byte. From the text of a template it first guesses
// the places where annotations can go. Then it inserts a mark at each place and renders the chart in
// memory: the objects with a mark belong to its place. The final files are rendered again and must
// have the wanted plan.
//
//	Prepare ─▶ Result ─▶ Write      all files, or none
//	              └────▶ Manual     lines to add by hand, and where
//
// Fix is the exception: it replaces lines with a mistake that has one right answer.
package annotate

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/documents"
)

// Source is the chart to annotate.
type Source struct {
	// Dir is the directory or the archive of the chart.
	Dir     string
	Values  map[string]any
	Options charts.RenderOptions
	// Rendered is the unchanged chart, rendered with Values and Options.
	Rendered *charts.Rendered
	Spelling Spelling
	// Partial writes a part of the order if not all of it can be written.
	Partial bool
	// OnStep, if set, is called when a step starts that may be slow.
	OnStep func(step string)
}

// Order is the order to write: the tree and the resources of the source, with the dependencies
// added to the tree and to the annotations of the resources.
type Order struct {
	Tree      *plan.Chart
	Resources []plan.Resource
}

// Result is the result of Prepare. Nothing has been written yet.
type Result struct {
	// Files are the files to change, sorted by name.
	Files []File
	// Manual are the lines to add by hand.
	Manual []ManualEdit
	// Restarts are the workloads that will restart because their pod templates contain the
	// checksum of a changed file.
	Restarts []plan.Object
}

// ManualEdit is an edit that cannot be made safely, for the user to make by hand.
type ManualEdit struct {
	// Chart is the chart path. Objects are the objects to annotate, none for Chart.yaml.
	Chart   string        `json:"chart"`
	Objects []plan.Object `json:"objects,omitempty"`
	// File is relative to the chart's directory, "" if unknown. Line counts from 1, and
	// is 0 if unknown.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Why is the reason. Lines are the lines to add.
	Why   string   `json:"why"`
	Lines []string `json:"lines"`
}

// Prepare finds the lines to insert. It renders the new files in memory, with the source's
// values and with each boolean value flipped, and checks that they have the plan of the order.
// If a line cannot be inserted, the result has no files or, with Source.Partial, only those for
// the part of the order that does not depend on missing lines. It returns an error if a file
// cannot be read, or if the new chart would deploy other objects.
//
// Rule R69: lines are inserted, checked in memory, and written all or none.
func Prepare(ctx context.Context, src Source, order Order) (*Result, error) {
	now := Order{src.Rendered.Tree, src.Rendered.Resources}
	omitted, keepTree := unwrittenGroups{}, false // keepTree is set if dependencies of charts cannot be written
	var manual []ManualEdit
	for {
		w, err := newWriter(ctx, src)
		if err != nil {
			return nil, err
		}
		more, err := w.write(omitted.without(order, now, keepTree))
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			return w.result(omitted.explain(manual, order)), nil
		}
		manual = append(manual, more...)
		if !src.Partial {
			return &Result{Manual: manual}, nil
		}
		groups, tree := len(omitted), keepTree
		omitted.add(more, order, now.Tree)
		keepTree = keepTree || slices.ContainsFunc(more, func(m ManualEdit) bool { return m.Objects == nil })
		if len(omitted) == groups && keepTree == tree { // there is nothing more to omit
			return &Result{Manual: manual}, nil
		}
	}
}

// write collects the insertions for an order. It returns the lines that cannot be inserted, or that
// would be wrong with other values.
func (w *writer) write(order Order) ([]ManualEdit, error) {
	wanted, err := plan.Build(order.Tree, order.Resources)
	if err != nil {
		return nil, err
	}
	w.addDependencies(w.src.Rendered.Tree, order.Tree)
	if err := w.addAnnotations(order.Resources); err != nil || len(w.manual) > 0 {
		return w.manual, err
	}
	w.step("checking the order of chart %s with other values")
	if err := w.check(wanted); err != nil {
		return nil, notWritten(w.src.Dir, err)
	}
	manual, err := w.variants(wanted)
	if err != nil {
		return nil, notWritten(w.src.Dir, err)
	}
	return manual, nil
}

// writer collects insertions by file.
type writer struct {
	ctx      context.Context
	src      Source
	folders  map[string]charts.Folder
	files    map[string]*file
	manual   []ManualEdit
	volatile map[string]bool // paths of the fields that change with each rendering; nil until read
	unstable []plan.Object   // workloads that each upgrade restarts, because a checksum changes with each rendering
	restarts []plan.Object
	guarded  [][]string // paths of the values that a guard depends on, from the values of the root chart
	placed   []placed
	made     generated
}

// placed are the insertions at a place, and the objects that it renders.
type placed struct {
	file   string
	line   int
	edits  []*edit
	insert []insertion
}

func newWriter(ctx context.Context, src Source) (*writer, error) {
	c, err := charts.LoadPath(src.Dir)
	if err != nil {
		return nil, err
	}
	folders, err := c.Folders(src.Values)
	if err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, src: src, folders: folders, files: map[string]*file{}}, nil
}

// render renders the chart with insertions in its files.
func (w *writer) render(insert map[string][]insertion) (*charts.Rendered, error) {
	return w.renderWith(insert, w.src.Values)
}

func (w *writer) renderWith(insert map[string][]insertion, values map[string]any) (*charts.Rendered, error) {
	contents := map[string][]byte{}
	for name, ins := range insert {
		contents[name] = w.files[name].with(ins)
	}
	return w.renderFiles(contents, values)
}

// renderFiles renders the chart with other contents of its files.
func (w *writer) renderFiles(contents map[string][]byte, values map[string]any) (*charts.Rendered, error) {
	c, err := charts.LoadWith(w.src.Dir, contents)
	if err != nil {
		return nil, err
	}
	o := w.src.Options
	o.Funcs = w.made.funcs()
	r, err := charts.Render(w.ctx, c, values, o)
	if err == nil {
		align(w.src.Rendered, r)
	}
	return r, err
}

// step reports a step. Its %s is the name of the chart.
func (w *writer) step(format string) {
	if w.src.OnStep != nil {
		w.src.OnStep(fmt.Sprintf(format, w.src.Rendered.Tree.Path))
	}
}

// locate returns the path of a chart's file in the source, and why it cannot be written, "" if it can.
func (w *writer) locate(chart, name string) (file, why string) {
	folder, ok := w.folders[chart]
	switch {
	case !ok:
		return "", "its chart is unknown"
	case folder.Archive != "":
		return path.Join(folder.Dir, name), "its chart is packed in " + folder.Archive
	}
	return path.Join(folder.Dir, name), ""
}

// edit is an object and the lines to add to its template, if any.
type edit struct {
	doc    charts.Document
	object plan.Object
	file   string
	needs  []string // the groups to wait for
	lines  []string
}

// addAnnotations inserts the missing annotations of objects.
func (w *writer) addAnnotations(resources []plan.Resource) error {
	edits, err := w.edits(resources)
	if err != nil {
		return err
	}
	found, err := w.find(edits)
	if err != nil {
		return err
	}
	present := w.presences(resources, found)
	for _, p := range found {
		w.annotate(p, edits, present)
	}
	for _, e := range edits {
		if len(e.lines) > 0 && !slices.ContainsFunc(found, func(p *foundPlace) bool { return slices.Contains(p.objects, e.object) }) {
			why, line := w.refusal(e)
			w.addManual(e, line, why)
		}
	}
	return nil
}

// edits compares the present annotations of all objects with those in resources, and adds the lines that
// cannot be inserted to w.manual. It returns the objects in the order of the manifest.
func (w *writer) edits(resources []plan.Resource) (edits []*edit, err error) {
	wanted := make(map[plan.Object]*plan.Resource, len(resources))
	for i := range resources {
		wanted[resources[i].Object] = &resources[i]
	}
	for i, r := range w.src.Rendered.Resources {
		target := wanted[r.Object]
		if target == nil {
			continue
		}
		e := &edit{doc: w.src.Rendered.Docs[i], object: r.Object, needs: needsOf(target.Annotations)}
		lines, changed := annotationLines(r.Annotations, target.Annotations, w.src.Spelling)
		name, why := w.locate(r.Chart, strings.TrimPrefix(e.doc.Source, sourcePrefix(r.Chart)))
		e.file = name
		if len(lines) > 0 {
			if changed != "" {
				why = "it already has " + changed + "; edit that by hand"
			} else if why == "" {
				if why, err = w.read(name); err != nil {
					return nil, err
				}
			}
			e.lines = lines
			if why != "" {
				w.addManual(e, 0, why)
				e.lines = nil
			}
		}
		edits = append(edits, e)
	}
	return edits, nil
}

// sourcePrefix returns the prefix of the names of a chart's templates.
func sourcePrefix(chart string) string { return strings.ReplaceAll(chart, "/", "/charts/") + "/" }

// annotate inserts the lines of a place if all objects that it renders need the same lines.
func (w *writer) annotate(p *foundPlace, edits []*edit, present map[groupKey]*presence) {
	var rendered []*edit
	for _, e := range edits {
		if slices.Contains(p.objects, e.object) {
			rendered = append(rendered, e)
		}
	}
	if len(rendered) == 0 {
		return
	}
	lines := rendered[0].lines
	if slices.ContainsFunc(rendered, func(e *edit) bool { return !slices.Equal(e.lines, lines) }) {
		for _, e := range rendered {
			if len(e.lines) > 0 {
				w.addManual(e, p.place.line, fmt.Sprintf("this place renders %d objects of several groups", len(p.objects)))
			}
		}
	} else if len(lines) > 0 {
		f := w.files[p.file]
		for _, path := range p.place.guardedValues() {
			w.guarded = append(w.guarded, append(strings.Split(rendered[0].doc.Chart, "/")[1:], path...))
		}
		insert := p.place.insertions(f.text, withConditions(rendered[0], p.place, present, w.src.Spelling))
		f.insert = append(f.insert, insert...)
		w.placed = append(w.placed, placed{p.file, p.place.line, rendered, insert})
	}
}

// withConditions returns the lines of an object, with conditions around the names of groups that are
// not always rendered.
func withConditions(e *edit, at *place, present map[groupKey]*presence, spelling Spelling) []string {
	out := slices.Clone(e.lines)
	for n, l := range out {
		for _, key := range []string{plan.AnnotationGroupDependsOn, plan.AnnotationLayerDependsOn} {
			if prefix := spelling.key(key) + ": "; strings.HasPrefix(l, prefix) {
				if value, conditional := conditionalList(e.doc.Chart, e.needs, at, present); conditional {
					out[n] = prefix + value
				}
			}
		}
	}
	return out
}

// addManual adds the lines of an object to w.manual. Objects that need the same lines at the same
// position share an entry.
func (w *writer) addManual(e *edit, line int, why string) {
	m := ManualEdit{Chart: e.doc.Chart, File: e.file, Line: line, Why: why, Lines: e.lines}
	for i, other := range w.manual {
		if other.Chart == m.Chart && other.File == m.File && other.Line == m.Line && other.Why == m.Why && slices.Equal(other.Lines, m.Lines) {
			w.manual[i].Objects = append(other.Objects, e.object)
			return
		}
	}
	m.Objects = []plan.Object{e.object}
	w.manual = append(w.manual, m)
}

func (w *writer) result(manual []ManualEdit) *Result {
	r := &Result{Manual: manual}
	for name, f := range w.files {
		if len(f.insert) > 0 {
			rewrite := documents.Rewrite{Path: f.path, Old: []byte(f.raw), New: f.with(f.insert)}
			r.Files = append(r.Files, File{name, f.added(), rewrite})
			r.Restarts = w.restarts
		}
	}
	slices.SortFunc(r.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return r
}
