package forms

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/theme"
	"lockstep/ui/home/form"
)

func (s source) suggest(ctx context.Context, in form.Input, f form.Field) ([]form.Suggestion, error) {
	if f == form.Namespace && in.HasFlag("--sandbox") { // the cluster does not exist yet, and creates any namespace
		return []form.Suggestion{{Value: in.Namespace}}, nil
	}
	switch f {
	case form.Name:
		return s.releases(ctx, in)
	case form.Chart:
		return s.charts(ctx, in)
	case form.Version:
		return s.versions(in)
	case form.Values:
		return append(s.oldValues(ctx, in), valuesFiles(ctx, in)...), nil
	case form.Namespace:
		return s.namespaces(ctx)
	case form.Revision:
		return s.revisions(ctx, in)
	}
	return nil, nil
}

// releases suggests the releases of the namespace. A new release needs another name.
func (s source) releases(ctx context.Context, in form.Input) (list []form.Suggestion, err error) {
	if in.Operation == form.Install {
		return nil, nil
	}
	found, err := s.Releases(ctx, in.Namespace)
	for _, rel := range found {
		name, version := chartOf(rel)
		about := fmt.Sprintf("revision %d, %s %s, %s", rel.Version, name, version, statusOf(rel))
		list = append(list, form.Suggestion{Value: rel.Name, About: about})
	}
	slices.SortFunc(list, func(a, b form.Suggestion) int { return text.CompareNatural(a.Value, b.Value) })
	return list, err
}

// chartOf returns the name and the version of a release's chart, "" if the record has none.
func chartOf(rel release) (name, version string) {
	if rel.Chart == nil || rel.Chart.Metadata == nil {
		return "", ""
	}
	return rel.Chart.Metadata.Name, rel.Chart.Metadata.Version
}

// statusOf returns the status of a release, unknown if the record has none.
func statusOf(rel release) rcommon.Status {
	if rel.Info == nil {
		return rcommon.StatusUnknown
	}
	return rel.Info.Status
}

func (s source) namespaces(ctx context.Context) (list []form.Suggestion, err error) {
	client, err := s.Connect()
	if err != nil {
		return nil, err
	}
	names, err := client.Namespaces(ctx)
	for _, name := range names {
		list = append(list, form.Suggestion{Value: name})
	}
	return list, err
}

// revisions suggests the revisions before the latest, the newest first, with what a rollback to each of them changes. The best
// is the one that a rollback without a revision restores.
func (s source) revisions(ctx context.Context, in form.Input) (list []form.Suggestion, err error) {
	if in.Name == "" {
		return nil, nil
	}
	client, err := s.Connect()
	if err != nil {
		return nil, err
	}
	history, err := client.ReleaseHistory(ctx, kube.ReleaseKey{Namespace: in.Namespace, Name: in.Name})
	if err != nil {
		return nil, err
	}
	all, best := history.Revisions(), false
	for n, r := range all[min(1, len(all)):] {
		about := []string{r.Changed.Local().Format("2 Jan 15:04"), text.Join(" ", r.Chart, r.Version), r.Status, r.What}
		if n+2 < len(all) && r.What == "" {
			about[3] = "no changes"
		}
		good := r.Status == string(rcommon.StatusSuperseded) || r.Status == string(rcommon.StatusDeployed)
		list = append(list, form.Suggestion{
			Value: strconv.Itoa(r.Number), About: strings.Join(slices.DeleteFunc(about, func(s string) bool { return s == "" }), ", "),
			Detail: append([]form.Line{describe(r)}, changed(history, all[0].Number, r.Number)...), Best: good && !best,
		})
		best = best || good
	}
	return list, nil
}

// describe returns the description of a revision, and who made it.
func describe(r kube.ReleaseRevision) form.Line {
	text := r.Description
	if r.By != "" {
		text += ", by " + r.By
	}
	return form.Line{Role: theme.Strong, Text: text}
}

// changed lists the changes from one revision to another.
func changed(history *kube.ReleaseHistory, before, revision int) (lines []form.Line) {
	strong := func(text string) []form.Line { return []form.Line{{Role: theme.Strong, Text: text}} }
	changes, err := history.Changes(before, revision)
	if err != nil {
		return strong("cannot compare the records: " + err.Error())
	}
	if len(changes) == 0 {
		return strong("no changes to values and objects")
	}
	for _, c := range changes {
		if c.Object.Kind == "values" { // no kind of Kubernetes begins with a small letter
			lines = append(lines, strong("values")...)
		} else {
			lines = append(lines, form.Line{Role: theme.DiffRole(signs[c.Action]), Text: signs[c.Action] + " " + c.Object.String()})
		}
		lines = append(lines, fieldLines(c.Fields)...)
	}
	return lines
}

var signs = map[inspect.Action]string{inspect.Create: "+", inspect.Modify: "~", inspect.Delete: "-"}

// fieldLines returns the lines of fields, each below the path of its parent.
func fieldLines(fields []inspect.Field) (lines []form.Line) {
	in := ""
	for n, f := range fields {
		if f.In != "" && (n == 0 || f.In != in) {
			lines = append(lines, form.Line{Indent: 2, Text: f.In})
		}
		in = f.In
		for _, l := range f.Lines {
			sign := l[:min(1, len(l))]
			lines = append(lines, form.Line{Indent: 4, Role: theme.DiffRole(sign), Text: text.Join(" ", sign, l[len(sign):])})
		}
	}
	return lines
}
