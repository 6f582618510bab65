package annotate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// The reasons to refuse a place: its template can no longer be rendered, or the names of its objects contain random text
// or the time, and so many differ that align cannot match them.
var (
	errBroken  = errors.New("annotations there would break its YAML")
	errRenamed = errors.New("its name changes with each rendering; give it a fixed name")
)

// mark is the annotation that identifies the objects of a place in a trial rendering.
const mark = "lockstep/place"

// foundPlace is a place with the objects that it renders.
type foundPlace struct {
	file    string
	place   *place
	objects []plan.Object
}

// find returns the usable places with their objects. It renders the chart with a different
// mark at each place.
func (w *writer) find(edits []*edit) ([]*foundPlace, error) {
	files := map[string]bool{}
	for _, e := range edits {
		if len(e.lines) > 0 {
			files[e.file] = true
		}
	}
	var all []*foundPlace
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, p := range w.files[name].places {
			if p.refusal == "" {
				all = append(all, &foundPlace{file: name, place: p})
			}
		}
	}
	w.step("looking for places for annotations in chart %s")
	return w.usable(all)
}

// usable returns the places where annotations change nothing else, and refuses the others: text that
// looks like metadata may be part of a string. It finds them by bisection, and tries the places of the template that
// an error names apart from the others.
func (w *writer) usable(places []*foundPlace) ([]*foundPlace, error) {
	if len(places) == 0 {
		return nil, nil
	}
	failed := w.mark(places)
	switch {
	case failed == nil:
		return places, nil
	case w.ctx.Err() != nil:
		return nil, w.ctx.Err()
	case len(places) == 1:
		places[0].place.refusal = failed.Error()
		if errors.Is(failed, errBroken) { // without Helm's error, which is about the trial
			places[0].place.refusal = errBroken.Error()
		}
		return nil, nil
	}
	named := func(p *foundPlace) bool { return strings.Contains(failed.Error(), "/"+p.file) }
	suspect, others := filter(places, named), filter(places, func(p *foundPlace) bool { return !named(p) })
	if len(suspect) == 0 || len(others) == 0 {
		suspect, others = places[:len(places)/2], places[len(places)/2:]
	}
	usable := map[*foundPlace]bool{}
	for _, part := range [][]*foundPlace{suspect, others} {
		found, err := w.usable(part)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			usable[p] = true
		}
	}
	return filter(places, func(p *foundPlace) bool { return usable[p] }), nil
}

func filter(places []*foundPlace, keep func(*foundPlace) bool) (kept []*foundPlace) {
	for _, p := range places {
		if keep(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// mark renders the chart with a mark at each place to find the objects of the places. It returns an
// error if the marks change anything else.
func (w *writer) mark(places []*foundPlace) error {
	marks := map[string][]insertion{}
	for i, p := range places {
		p.objects = nil
		lines := []string{mark + ": " + strconv.Quote(strconv.Itoa(i))}
		marks[p.file] = append(marks[p.file], p.place.insertions(w.files[p.file].text, lines)...)
	}
	r, err := w.render(marks)
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	if err := w.checkUnchanged(r); err != nil {
		return err
	}
	for _, res := range r.Resources {
		i, err := strconv.Atoi(res.Annotations[mark])
		if err == nil && i >= 0 && i < len(places) {
			places[i].objects = append(places[i].objects, res.Object)
		}
	}
	return nil
}

// refusal returns why an object has no usable place, and the line of that place, 0 if unknown.
func (w *writer) refusal(e *edit) (why string, line int) {
	f := w.files[e.file]
	if f.text == nil {
		return "its template cannot be parsed", 0
	}
	var fits []*place
	for _, p := range f.places {
		if p.refusal != "" && (p.kind == e.object.Kind || p.kind == "") {
			fits = append(fits, p)
		}
	}
	switch len(fits) {
	case 0:
		return noMetadata, 0
	case 1:
		return fits[0].refusal, fits[0].line
	}
	return fits[0].refusal, 0
}

// checkUnchanged returns an error that names the first difference between a rendering and the source,
// ignoring marks and ordering annotations.
func (w *writer) checkUnchanged(r *charts.Rendered) error {
	if w.volatile == nil {
		again, err := w.render(nil)
		if err != nil {
			return err
		}
		w.volatile, w.unstable = differences(w.src.Rendered, again), restarted(w.src.Rendered, again)
	}
	for _, at := range slices.Sorted(maps.Keys(differences(w.src.Rendered, r))) {
		switch {
		case w.volatile[at]:
		case strings.HasSuffix(at, ")"): // the whole object
			return fmt.Errorf("%s: %w", at, errRenamed)
		default:
			return fmt.Errorf("%s would change", at)
		}
	}
	return nil
}

// align renames objects whose names contain random text or the time to their names in the first
// rendering. It matches them by kind, chart and template, in the order of the template, if each rendering
// has as many such objects there.
func align(first, r *charts.Rendered) {
	type origin struct {
		kind        plan.GroupKind
		chart, file string
	}
	unmatched := func(of, others *charts.Rendered) map[origin][]int {
		known := objectsOf(others)
		out := map[origin][]int{}
		for i, res := range of.Resources {
			if o := res.Object; !known[o] {
				at := origin{plan.GroupKind{Group: o.Group, Kind: o.Kind}, res.Chart, of.Docs[i].Source}
				out[at] = append(out[at], i)
			}
		}
		return out
	}
	missing := unmatched(first, r)
	for at, here := range unmatched(r, first) {
		if len(here) != len(missing[at]) {
			continue
		}
		for n, i := range here {
			name := first.Resources[missing[at][n]].Object.Name
			r.Resources[i].Object.Name = name
			r.Docs[i].Object.SetName(name)
		}
	}
}

func objectsOf(r *charts.Rendered) map[plan.Object]bool {
	objects := map[plan.Object]bool{}
	for _, res := range r.Resources {
		objects[res.Object] = true
	}
	return objects
}
