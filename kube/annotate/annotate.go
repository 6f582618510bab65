// Package annotate writes the order of a chart into its files: groups into the
// metadata.annotations of templates, and what subcharts wait for into Chart.yaml.
//
// It only ever inserts lines: taken out again, they leave the bytes that were
// there. Where a template has room for annotations is guessed from its text, and
// then found out: each place gets a mark, the chart is rendered in memory, and the
// objects that carry the mark are the ones that the place is for. What is written
// in the end is rendered once more, and has to give the plan that was wanted.
//
//	Prepare ─▶ Result ─▶ Write     all files, or none
//	              └────▶ Left      what has to be put in by hand, and where
package annotate

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// Source is the chart that is written into.
type Source struct {
	// Dir is the directory of the chart, or the archive that it is.
	Dir     string
	Values  map[string]any
	Options charts.RenderOptions
	// Rendered is the chart as it stands, rendered with these.
	Rendered *charts.Rendered
	Spelling Spelling
	// Partial writes a part of the order if not all of it can be written.
	Partial bool
}

// Order is what the files are to say: the tree and the resources of the source,
// with what waits for what added to the former's lists and to the latter's
// annotations. Nothing is taken away.
type Order struct {
	Tree      *plan.Chart
	Resources []plan.Resource
}

// Result is what has been found out, before anything is written.
type Result struct {
	// Files are those that change, by name.
	Files []File
	// Left is what has to be put in by hand.
	Left []Left
	// Restarts are the workloads that are rolled out once more because of it: their pods
	// have a checksum of a template that lines go into.
	Restarts []plan.Object
}

// Left is something that cannot be put in safely.
type Left struct {
	// Chart is the chart path; Objects are those that it is about, none where that
	// is Chart.yaml.
	Chart   string        `json:"chart"`
	Objects []plan.Object `json:"objects,omitempty"`
	// File is the one that it belongs into, as far as that is known, below the
	// chart's directory; Line is where, from 1, or 0.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Why tells why it was left, Lines are what to put there.
	Why   string   `json:"why"`
	Lines []string `json:"lines"`
}

// Prepare finds out what to insert where. The new files are rendered in memory, with the
// source's values and with their switches turned, and have to give the plan of the order. If
// something cannot be written, nothing is, or with Source.Partial the largest part that
// waits for nothing that is not written. The error says that the files cannot be read, or
// that the chart would deploy something else.
//
// Rule R69: lines are inserted, checked in memory, and written all or none.
func Prepare(ctx context.Context, src Source, order Order) (*Result, error) {
	now := Order{src.Rendered.Tree, src.Rendered.Resources}
	not, noCharts := unwritten{}, false
	var left []Left
	for {
		part := not.without(order, now, noCharts)
		w, err := newWriter(ctx, src)
		if err != nil {
			return nil, err
		}
		more, err := w.write(part)
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			return w.result(not.explain(left, order)), nil
		}
		left = append(left, more...)
		if !src.Partial {
			return &Result{Left: left}, nil
		}
		known := len(not)
		not.add(more, order, now.Tree)
		stuck := len(not) == known && noCharts
		noCharts = noCharts || slices.ContainsFunc(more, func(l Left) bool { return l.Objects == nil })
		if stuck || len(not) == known && !noCharts {
			return &Result{Left: left}, nil
		}
	}
}

// write collects the lines of an order, and returns what cannot be written or would not
// hold with other values.
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

// writer collects what goes into which file.
type writer struct {
	ctx     context.Context
	src     Source
	folders map[string]charts.Folder
	files   map[string]*file
	left    []Left
	// volatile are the fields that are other ones each time.
	volatile map[string]bool
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

// in says where a file of a chart lies, and whether it can be written.
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

// want is what one object lacks.
type want struct {
	doc    charts.Document
	object plan.Object
	file   string
	needs  []string // the groups that it is to wait for
	lines  []string
}

// objects puts in what objects lack.
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

// wants compares what objects say with what they are to say. All objects are in
// it, by the order of the manifest; most lack something.
func (w *writer) wants(resources []plan.Resource) ([]*want, error) {
	to := make(map[plan.Object]*plan.Resource, len(resources))
	for i := range resources {
		to[resources[i].Object] = &resources[i]
	}
	var wants []*want
	for i, r := range w.src.Rendered.Resources {
		target := to[r.Object]
		if target == nil {
			continue
		}
		a := &want{doc: w.src.Rendered.Docs[i], object: r.Object, needs: needsOf(target.Annotations)}
		lines, changed := annotationLines(r.Annotations, target.Annotations, w.src.Spelling)
		name, why := w.in(r.Chart, strings.TrimPrefix(a.doc.Source, sourcePrefix(r.Chart)))
		a.file = name
		switch {
		case len(lines) == 0:
		case changed != "":
			why = "it has " + changed + " already; edit that by hand"
			fallthrough
		case why != "":
			a.lines = lines
			w.leave(a, 0, why)
			a.lines = nil
		default:
			a.lines = lines
			if why, err := w.read(name); err != nil {
				return nil, err
			} else if why != "" {
				w.leave(a, 0, why)
				a.lines = nil
			}
		}
		wants = append(wants, a)
	}
	return wants, nil
}

// sourcePrefix is what the names of a chart's templates begin with.
func sourcePrefix(chart string) string { return strings.ReplaceAll(chart, "/", "/charts/") + "/" }

// put writes the lines of a place, where all objects that it makes want the same.
func (w *writer) put(p *foundPlace, wants []*want, present map[groupKey]*presence) {
	var lines []string
	agreed, any := true, false
	for _, a := range wants {
		if !slices.Contains(p.objects, a.object) {
			continue
		}
		if any && !slices.Equal(lines, a.lines) {
			agreed = false
		}
		lines, any = a.lines, true
	}
	if agreed && len(lines) > 0 {
		lines = conditioned(lines, wants, p, present, w.src.Spelling)
		w.files[p.file].insert = append(w.files[p.file].insert, p.place.insertions(w.files[p.file].text, lines)...)
		return
	}
	if agreed {
		return
	}
	for _, a := range wants {
		if len(a.lines) > 0 && slices.Contains(p.objects, a.object) {
			w.leave(a, p.place.line, fmt.Sprintf("this template makes %d objects of several groups", len(p.objects)))
		}
	}
}

// conditioned returns lines in which what is not always rendered is named under its
// condition.
func conditioned(lines []string, wants []*want, p *foundPlace, present map[groupKey]*presence, spelling Spelling) []string {
	i := slices.IndexFunc(wants, func(a *want) bool { return slices.Contains(p.objects, a.object) })
	out := slices.Clone(lines)
	for n, l := range lines {
		for _, key := range []string{plan.AnnotationGroupDependsOn, plan.AnnotationLayerDependsOn} {
			if prefix := spelling.key(key) + ": "; strings.HasPrefix(l, prefix) {
				if value, conditional := needs(wants[i].doc.Chart, wants[i].needs, p.place, present); conditional {
					out[n] = prefix + value
				}
			}
		}
	}
	return out
}

// leave notes what is left to somebody, together with what is to be put in the
// same way.
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
			r.Files = append(r.Files, File{Name: name, Lines: f.added(), path: f.path, old: []byte(f.raw), new: f.with(f.insert)})
		}
	}
	slices.SortFunc(r.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return r
}
