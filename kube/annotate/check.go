package annotate

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// insertions returns the lines to insert, by file.
func (w *writer) insertions() map[string][]insertion {
	insert := map[string][]insertion{}
	for name, f := range w.files {
		if len(f.insert) > 0 {
			insert[name] = f.insert
		}
	}
	return insert
}

// check renders the chart with all insertions. It returns an error if the objects change, or
// if the plan is not the wanted one.
func (w *writer) check(wanted *plan.Plan) error {
	r, err := w.render(w.insertions())
	if err != nil {
		return err
	}
	if err := w.checkUnchanged(r); err != nil {
		return err
	}
	got, err := plan.Build(r.Tree, r.Resources)
	if err != nil {
		return err
	}
	w.restarts = slices.DeleteFunc(restarted(w.src.Rendered, r), func(o plan.Object) bool { return slices.Contains(w.unstable, o) })
	return comparePlans(got, wanted)
}

// restarted returns the workloads whose pod templates contain a checksum that changes.
func restarted(before, after *charts.Rendered) (found []plan.Object) {
	sums := func(r *charts.Rendered) map[plan.Object]map[string]string {
		out := map[plan.Object]map[string]string{}
		for i, res := range r.Resources {
			out[res.Object], _, _ = unstructured.NestedStringMap(r.Docs[i].Object.Object, "spec", "template", "metadata", "annotations")
		}
		return out
	}
	now := sums(after)
	for o, was := range sums(before) {
		for key, sum := range was {
			if is := now[o][key]; is != sum && digest.MatchString(sum) && digest.MatchString(is) {
				found = append(found, o)
				break
			}
		}
	}
	slices.SortFunc(found, plan.Object.Compare)
	return found
}

// comparePlans returns an error that names the first difference between two plans.
func comparePlans(got, wanted *plan.Plan) error {
	for _, g := range wanted.Groups {
		actual := got.Group(g.ID)
		switch {
		case actual == nil:
			return fmt.Errorf("group %s would be missing", g.ID)
		case !slices.Equal(actual.After, g.After):
			return fmt.Errorf("group %s would wait for %v instead of %v", g.ID, actual.After, g.After)
		case !reflect.DeepEqual(actual.Objects, g.Objects) || actual.JobsComplete != g.JobsComplete:
			return fmt.Errorf("group %s would have different objects: %v", g.ID, actual.Objects)
		}
	}
	if len(got.Groups) != len(wanted.Groups) {
		return errors.New("there would be more groups")
	}
	return nil
}

// digest matches the checksum of a template.
var digest = regexp.MustCompile(`^[0-9a-f]{32,128}$`)

// isTime reports whether a text is a time, plain or in base64. Two renderings within a second have the
// same time, so writer.volatile does not contain such fields.
func isTime(text string) bool {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", time.RFC1123Z} {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(plain) > 0 && string(plain) != text && isTime(string(plain))
}

// differences returns the fields in which two renderings of a chart differ, ignoring ordering
// annotations, checksums and times.
func differences(a, b *charts.Rendered) map[string]bool {
	out := map[string]bool{}
	compare("", content(a), content(b), out)
	return out
}

// content returns the objects of a rendering by name, its hooks by template, because their names may
// contain random text, and its notes.
func content(r *charts.Rendered) map[string]any {
	out := objects(r)
	for _, h := range r.Release.Hooks {
		at := fmt.Sprintf("hook %s of %s", h.Kind, h.Path)
		for n := 2; out[at] != nil; n++ {
			at = fmt.Sprintf("hook %s %d of %s", h.Kind, n, h.Path)
		}
		out[at] = h.Manifest
	}
	out["the notes"] = r.Release.Info.Notes
	return out
}

// objects returns the objects of a rendering by name, without ordering annotations. Objects
// with the same name are numbered.
func objects(r *charts.Rendered) map[string]any {
	out := map[string]any{}
	for i, d := range r.Docs {
		o := r.Resources[i].Object
		name := fmt.Sprintf("%s (namespace %q, %s)", o, o.Namespace, d.Source)
		for n := 2; out[name] != nil; n++ {
			name = fmt.Sprintf("%s (namespace %q, %s, %d)", o, o.Namespace, d.Source, n)
		}
		u := d.Object.DeepCopy()
		metadata, _ := u.Object["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		for key := range annotations {
			if key == mark || slices.Contains(charts.AnnotationKeys(), key) || plan.Misspelt(key) != "" {
				delete(annotations, key)
			}
		}
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
		out[name] = u.Object
	}
	return out
}

// compare compares the values a and b at a path, and adds the paths of the fields that differ to out.
func compare(at string, a, b any, out map[string]bool) {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			break
		}
		if at != "" {
			at += "."
		}
		for key := range b {
			if _, ok := a[key]; !ok {
				out[at+key] = true
			}
		}
		for key, value := range a {
			if other, ok := b[key]; ok {
				compare(at+key, value, other, out)
			} else {
				out[at+key] = true
			}
		}
		return
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			break
		}
		for i := range a {
			compare(fmt.Sprintf("%s[%d]", at, i), a[i], b[i], out)
		}
		return
	case string:
		if b, ok := b.(string); ok && (a == b || digest.MatchString(a) && digest.MatchString(b) || isTime(a) && isTime(b)) {
			return
		}
	default:
		if a == b {
			return
		}
	}
	out[at] = true
}
