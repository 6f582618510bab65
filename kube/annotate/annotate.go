// Package annotate writes the order of a chart into its files: groups into the
// metadata.annotations of templates, and dependencies of subcharts into Chart.yaml.
//
// It only inserts lines and changes no other byte. It first guesses from the text of a
// template where annotations can go. Then it adds a mark at each of these places and renders
// the chart in memory: the objects with a mark belong to its place. The final files are
// rendered again and must have the wanted plan.
//
//	Prepare ─▶ Result ─▶ Write     all files, or none
//	              └────▶ Left      lines to add by hand, and where
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
	// Rendered is the present chart, rendered with Values and Options.
	Rendered *charts.Rendered
	Spelling Spelling
	// Partial writes a part of the order if not all of it can be written.
	Partial bool
}

// Order is the order to write: the tree and the resources of the source, with dependencies
// added to the lists of the tree and to the annotations of the resources.
type Order struct {
	Tree      *plan.Chart
	Resources []plan.Resource
}

// Result is the result of Prepare. No file was written yet.
type Result struct {
	// Files are the files to change, by name.
	Files []File
	// Left are the lines to add by hand.
	Left []Left
	// Restarts are the workloads that will be rolled out because their pods have the
	// checksum of a changed template.
	Restarts []plan.Object
}

// Left are lines that cannot be inserted safely.
type Left struct {
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

// Prepare determines the lines to insert. It renders the new files in memory, with the
// source's values and with each boolean value flipped, and checks that they have the plan of
// the order. If a line cannot be inserted, there are no files to change or, with
// Source.Partial, only those for the largest part of the order that does not depend on
// missing lines. It returns an error if the files cannot be read, or if the new chart would
// deploy other objects.
//
// Rule R69: lines are inserted, checked in memory, and written all or none.
func Prepare(ctx context.Context, src Source, order Order) (*Result, error) {
	now := Order{src.Rendered.Tree, src.Rendered.Resources}
	omitted, noCharts := unwritten{}, false
	var left []Left
	for {
		part := omitted.without(order, now, noCharts)
		w, err := newWriter(ctx, src)
		if err != nil {
			return nil, err
		}
		more, err := w.write(part)
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			return w.result(omitted.explain(left, order)), nil
		}
		left = append(left, more...)
		if !src.Partial {
			return &Result{Left: left}, nil
		}
		known := len(omitted)
		omitted.add(more, order, now.Tree)
		stuck := len(omitted) == known && noCharts
		noCharts = noCharts || slices.ContainsFunc(more, func(l Left) bool { return l.Objects == nil })
		if stuck || len(omitted) == known && !noCharts {
			return &Result{Left: left}, nil
		}
	}
}

// write collects the lines of an order. It returns those that cannot be inserted, or that
// would be wrong with other values.
func (w *writer) write(order Order) ([]Left, error) {
	wanted, err := plan.Build(order.Tree, order.Resources)
	if err != nil {
		return nil, err
	}
	w.charts(w.src.Rendered.Tree, order.Tree)
	if err := w.objects(order.Resources); err != nil || len(w.left) > 0 {
		return w.left, err
	}
	if err := w.check(wanted); err != nil {
		return nil, notWritten(w.src.Dir, err)
	}
	left, err := w.variants(wanted)
	if err != nil {
		return nil, notWritten(w.src.Dir, err)
	}
	return left, nil
}

// writer collects insertions by file.
type writer struct {
	ctx      context.Context
	src      Source
	folders  map[string]charts.Folder
	files    map[string]*file
	left     []Left
	volatile map[string]bool // fields that differ in each rendering
	restarts []plan.Object
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

// render renders the chart with the given insertions in its files.
func (w *writer) render(insert map[string][]insertion) (*charts.Rendered, error) {
	return w.renderWith(insert, w.src.Values)
}

func (w *writer) renderWith(insert map[string][]insertion, values map[string]any) (*charts.Rendered, error) {
	contents := map[string][]byte{}
	for name, ins := range insert {
		contents[name] = w.files[name].with(ins)
	}
	c, err := charts.LoadWith(w.src.Dir, contents)
	if err != nil {
		return nil, err
	}
	r, err := charts.Render(w.ctx, c, values, w.src.Options)
	if err == nil {
		align(w.src.Rendered, r)
	}
	return r, err
}

// in returns the path of a chart's file, and why it cannot be written, "" if it can.
func (w *writer) in(chart, name string) (file string, why string) {
	folder, ok := w.folders[chart]
	switch {
	case !ok:
		return "", "its chart is unknown"
	case folder.Archive != "":
		return path.Join(folder.Dir, name), "its chart is packed in " + folder.Archive
	}
	return path.Join(folder.Dir, name), ""
}

// want holds the missing lines of one object.
type want struct {
	doc    charts.Document
	object plan.Object
	file   string
	needs  []string // the groups to wait for
	lines  []string
}

// objects inserts the missing annotations of objects.
func (w *writer) objects(resources []plan.Resource) error {
	wants, err := w.wants(resources)
	if err != nil {
		return err
	}
	found, err := w.find(wants)
	if err != nil {
		return err
	}
	present := w.presences(resources, found)
	for _, p := range found {
		w.put(p, wants, present)
	}
	for _, want := range wants {
		if len(want.lines) > 0 && !slices.ContainsFunc(found, func(p *foundPlace) bool { return slices.Contains(p.objects, want.object) }) {
			why, line := w.refusal(want)
			w.leave(want, line, why)
		}
	}
	return nil
}

// wants compares the present annotations of all objects with those in resources, in the order
// of the manifest.
func (w *writer) wants(resources []plan.Resource) (wants []*want, err error) {
	to := make(map[plan.Object]*plan.Resource, len(resources))
	for i := range resources {
		to[resources[i].Object] = &resources[i]
	}
	for i, r := range w.src.Rendered.Resources {
		target := to[r.Object]
		if target == nil {
			continue
		}
		a := &want{doc: w.src.Rendered.Docs[i], object: r.Object, needs: needsOf(target.Annotations)}
		lines, changed := annotationLines(r.Annotations, target.Annotations, w.src.Spelling)
		name, why := w.in(r.Chart, strings.TrimPrefix(a.doc.Source, sourcePrefix(r.Chart)))
		a.file = name
		if len(lines) > 0 {
			if changed != "" {
				why = "it has " + changed + " already; edit that by hand"
			} else if why == "" {
				if why, err = w.read(name); err != nil {
					return nil, err
				}
			}
			a.lines = lines
			if why != "" {
				w.leave(a, 0, why)
				a.lines = nil
			}
		}
		wants = append(wants, a)
	}
	return wants, nil
}

// sourcePrefix returns the prefix of the names of a chart's templates.
func sourcePrefix(chart string) string { return strings.ReplaceAll(chart, "/", "/charts/") + "/" }

// put inserts the lines of a place if all objects that it creates need the same lines.
func (w *writer) put(p *foundPlace, wants []*want, present map[groupKey]*presence) {
	var created []*want
	for _, a := range wants {
		if slices.Contains(p.objects, a.object) {
			created = append(created, a)
		}
	}
	if len(created) == 0 {
		return
	}
	lines := created[0].lines
	if slices.ContainsFunc(created, func(a *want) bool { return !slices.Equal(a.lines, lines) }) {
		for _, a := range created {
			if len(a.lines) > 0 {
				w.leave(a, p.place.line, fmt.Sprintf("this template makes %d objects of several groups", len(p.objects)))
			}
		}
	} else if len(lines) > 0 {
		f := w.files[p.file]
		f.insert = append(f.insert, p.place.insertions(f.text, conditioned(created[0], p.place, present, w.src.Spelling))...)
	}
}

// conditioned returns the lines of an object with conditions around the names of groups that are not
// always rendered.
func conditioned(a *want, at *place, present map[groupKey]*presence, spelling Spelling) []string {
	out := slices.Clone(a.lines)
	for n, l := range out {
		for _, key := range []string{plan.AnnotationGroupDependsOn, plan.AnnotationLayerDependsOn} {
			if prefix := spelling.key(key) + ": "; strings.HasPrefix(l, prefix) {
				if value, conditional := needs(a.doc.Chart, a.needs, at, present); conditional {
					out[n] = prefix + value
				}
			}
		}
	}
	return out
}

// leave adds the lines of an object to w.left, together with other objects that need the same
// lines at the same position.
func (w *writer) leave(a *want, line int, why string) {
	l := Left{Chart: a.doc.Chart, File: a.file, Line: line, Why: why, Lines: a.lines}
	for i, other := range w.left {
		if other.Chart == l.Chart && other.File == l.File && other.Line == l.Line && other.Why == l.Why && slices.Equal(other.Lines, l.Lines) {
			w.left[i].Objects = append(other.Objects, a.object)
			return
		}
	}
	l.Objects = []plan.Object{a.object}
	w.left = append(w.left, l)
}

func (w *writer) result(left []Left) *Result {
	r := &Result{Left: left, Restarts: w.restarts}
	for name, f := range w.files {
		if len(f.insert) > 0 {
			rewrite := documents.Rewrite{Path: f.path, Old: []byte(f.raw), New: f.with(f.insert)}
			r.Files = append(r.Files, File{name, f.added(), rewrite})
		}
	}
	slices.SortFunc(r.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return r
}
