package forms

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/ui/cli/command"
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
		return valuesFiles(ctx, in)
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
		list = append(list, form.Suggestion{Value: rel.Name, About: fmt.Sprintf("revision %d, %s", rel.Version, command.DescribeRevision(rel))})
	}
	return list, err
}

func (s source) namespaces(ctx context.Context) (list []form.Suggestion, err error) {
	client, err := s.Connect()
	if err != nil {
		return nil, err
	}
	found, err := client.Clientset.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, client.ExplainDenied(err)
	}
	for _, ns := range found.Items {
		list = append(list, form.Suggestion{Value: ns.Name})
	}
	return list, nil
}

// revisions suggests the revisions before the latest, the newest first, with the changes that each of them made. The best is
// the one that a rollback without a revision restores.
func (s source) revisions(ctx context.Context, in form.Input) (list []form.Suggestion, err error) {
	if in.Name == "" {
		return nil, nil
	}
	found, err := s.HistoryIn(ctx, in.Namespace, in.Name)
	if err != nil {
		return nil, err
	}
	best := false
	for n, rel := range slices.Backward(found[:max(len(found)-1, 0)]) {
		var before *rel1.Release
		if n > 0 {
			before = found[n-1]
		}
		about, detail := describeChanges(before, rel)
		good := rel.Info.Status == rcommon.StatusSuperseded || rel.Info.Status == rcommon.StatusDeployed
		list = append(list, form.Suggestion{
			Value:  strconv.Itoa(rel.Version),
			About:  strings.Join([]string{rel.Info.LastDeployed.Local().Format("2 Jan 15:04"), command.DescribeRevision(rel), about}, ", "),
			Detail: detail, Best: good && !best,
		})
		best = best || good
	}
	return list, nil
}

// describeChanges describes the changes of a revision in a few words, and in detail.
func describeChanges(before, rel *rel1.Release) (about string, detail []string) {
	changes, err := kube.CompareRecords(before, rel)
	if err != nil {
		return "", []string{"cannot compare the records: " + err.Error()}
	}
	detail = append(detail, rel.Info.Description)
	if len(changes.Values) > 0 {
		detail = append(append(detail, "values"), fieldLines(changes.Values)...)
	}
	if len(changes.Objects) > 0 {
		detail = append(detail, "objects")
	}
	n := map[inspect.Action]int{}
	for _, c := range changes.Objects {
		n[c.Action]++
		detail = append(detail, "  "+signs[c.Action]+" "+c.Object.String())
		for _, l := range fieldLines(c.Fields) {
			detail = append(detail, "  "+l)
		}
	}
	if before == nil {
		return text.Count(len(changes.Objects), "object"), detail
	}
	if len(detail) == 1 {
		return "no changes", append(detail, "no changes to values and objects")
	}
	var parts []string
	for _, part := range []struct {
		n    int
		word string
	}{{n[inspect.Create], "new"}, {n[inspect.Modify], "changed"}, {n[inspect.Delete], "deleted"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.word))
		}
	}
	if len(changes.Values) > 0 {
		parts = append(parts, "other values")
	}
	return strings.Join(parts, ", "), detail
}

var signs = map[inspect.Action]string{inspect.Create: "+", inspect.Modify: "~", inspect.Delete: "-"}

// fieldLines returns the lines of fields, each below the path of its parent.
func fieldLines(fields []inspect.Field) (lines []string) {
	in := ""
	for n, f := range fields {
		if f.In != "" && (n == 0 || f.In != in) {
			lines = append(lines, "  "+f.In)
		}
		in = f.In
		for _, l := range f.Lines {
			lines = append(lines, "    "+l)
		}
	}
	return lines
}
