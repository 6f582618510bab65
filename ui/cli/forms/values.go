package forms

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/cli/values"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/mask"
	"lockstep/theme"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/home/form"
)

type release = *rel1.Release

// defaultsOf starts the description of a chart's defaults.
const defaultsOf = "the defaults "

// notValues are YAML files of other programs.
var notValues = []string{"Chart.yaml", "Chart.lock", "helmfile.yaml", "plugin.yaml"}

// valuesFiles suggests YAML files here: those of the chart first, then those that are called values, and last the defaults of charts,
// which always count.
func valuesFiles(ctx context.Context, in form.Input) (list []form.Suggestion) {
	typed := in.Values[strings.LastIndex(in.Values, ",")+1:]
	chart, _ := filepath.Abs(in.Chart)
	order := func(s form.Suggestion) int {
		path, _ := filepath.Abs(s.Value)
		own := in.Chart != "" && strings.HasPrefix(path, chart+string(filepath.Separator))
		return 4*rank(!strings.HasPrefix(s.About, defaultsOf)) + 2*rank(own) + rank(strings.Contains(strings.ToLower(s.Value), "values"))
	}
	walk(ctx, typedFolder(typed), func(path string, d fs.DirEntry) {
		ext := filepath.Ext(path)
		if ext != ".yaml" && ext != ".yml" || slices.Contains(notValues, d.Name()) || strings.HasPrefix(d.Name(), ".") {
			return
		}
		about := ""
		if chart := filepath.Join(filepath.Dir(path), "Chart.yaml"); input.Exists(chart) {
			about = "of chart " + chartMetadata(chart).Name
			if d.Name() == "values.yaml" {
				about = defaultsOf + about
			}
		}
		list = append(list, form.Suggestion{Value: path, About: about})
	})
	slices.SortStableFunc(list, func(a, b form.Suggestion) int { return order(a) - order(b) })
	return list
}

// Values returns the chosen files, or else the values of the revision that an upgrade keeps, or the chart's defaults as comments.
func (s source) Values(ctx context.Context, in form.Input) (string, error) {
	text, err := command.Cancelable(ctx, func(ctx context.Context) (string, error) {
		switch revision, files := in.ValuesFrom(); {
		case revision != "":
			return s.valuesOf(ctx, in, revision, files)
		case files != "" && !strings.Contains(files, ","):
			data, err := os.ReadFile(files)
			return string(data), err
		case files != "":
			merged, err := charts.Values(fileOptions(files), s.Settings)
			if err != nil {
				return "", err
			}
			return charts.YAML(merged)
		case in.Operation == form.Upgrade && in.Name != "":
			return s.lastValues(ctx, in)
		}
		return s.newValues(ctx, in)
	})
	return text, new(mask.Mask).Error(err)
}

func fileOptions(files string) (o values.Options) {
	if files != "" {
		o.ValueFiles = strings.Split(files, ",")
	}
	return o
}

// valuesOf returns the values of a revision with those of files on top.
func (s source) valuesOf(ctx context.Context, in form.Input, revision, files string) (string, error) {
	n, err := strconv.Atoi(revision)
	if err != nil {
		return "", fmt.Errorf("%q is not the number of a revision", revision)
	}
	given, err := charts.Values(fileOptions(files), s.Settings)
	if err != nil {
		return "", err
	}
	merged, err := input.BaseRevision{Release: in.Name, Revision: n}.Merge(ctx, s.App, in.Namespace, given)
	if err != nil {
		return "", err
	}
	return charts.YAML(merged)
}

// oldValues suggests the values of the revisions before the one whose values an upgrade keeps, the newest first. It returns nil if
// they cannot be read: the form says why where it shows the release.
func (s source) oldValues(ctx context.Context, in form.Input) (list []form.Suggestion) {
	if in.Operation != form.Upgrade || in.Name == "" {
		return nil
	}
	found, err := s.HistoryIn(ctx, in.Namespace, in.Name)
	if err != nil {
		return nil
	}
	kept, known := keptOf(found).Version, map[string]bool{}
	var history *kube.ReleaseHistory
	if client, err := s.Connect(); err == nil {
		history, _ = client.ReleaseHistory(ctx, kube.ReleaseKey{Namespace: in.Namespace, Name: in.Name}) // without it, nothing is compared
	}
	for _, rel := range slices.Backward(found) {
		content, err := charts.YAML(rel.Config)
		if err != nil || len(rel.Config) == 0 || known[content] {
			continue
		}
		known[content] = true
		if rel.Version == kept {
			continue
		}
		list = append(list, form.Suggestion{Value: fmt.Sprint(form.RevisionPrefix, rel.Version),
			About: strings.Join(about(rel), ", "), Detail: valuesDetail(history, kept, rel.Version)})
	}
	return list
}

// about says when a revision was deployed, its chart, and which values it has.
func about(rel release) (parts []string) {
	if rel.Info != nil {
		parts = append(parts, rel.Info.LastDeployed.Local().Format("2 Jan 15:04"))
	}
	name, version := chartOf(rel)
	return append(parts, text.Join(" ", name, version), "values: "+strings.Join(slices.Sorted(maps.Keys(rel.Config)), ", "))
}

// valuesDetail describes a revision, and says how its values differ from those that the upgrade keeps otherwise.
func valuesDetail(history *kube.ReleaseHistory, kept, revision int) (lines []form.Line) {
	if history == nil {
		return nil
	}
	for _, r := range history.Revisions() {
		if r.Number == revision {
			lines = append(lines, describe(r))
		}
	}
	changes, err := history.Changes(kept, revision)
	if err != nil {
		return append(lines, form.Line{Text: "cannot compare the records: " + err.Error()})
	}
	for _, c := range changes {
		if c.Object.Kind == "values" { // no kind of Kubernetes begins with a small letter
			lines = append(lines, form.Line{Role: theme.Strong, Text: fmt.Sprintf("unlike revision %d", kept)})
			lines = append(lines, fieldLines(c.Fields)...)
		}
	}
	return lines
}

// keptOf returns the revision whose values an upgrade without new ones keeps.
func keptOf(found []release) release {
	for _, rel := range slices.Backward(found) {
		if statusOf(rel) == rcommon.StatusDeployed {
			return rel
		}
	}
	return found[len(found)-1]
}

// lastValues returns the values that an upgrade without new ones keeps.
func (s source) lastValues(ctx context.Context, in form.Input) (string, error) {
	found, err := s.HistoryIn(ctx, in.Namespace, in.Name)
	if err != nil {
		return "", err
	}
	kept := keptOf(found)
	head, text := fmt.Sprintf("# Values of release %s, revision %d.\n", in.Name, kept.Version), "\n"
	if len(kept.Config) > 0 {
		if text, err = charts.YAML(kept.Config); err != nil {
			return "", err
		}
		text += "\n"
	}
	defaults, err := s.defaults(ctx, in)
	if err != nil { // the plan says why
		defaults = ""
	}
	return head + text + defaults, nil
}

// newValues returns a file to fill in.
func (s source) newValues(ctx context.Context, in form.Input) (string, error) {
	defaults, err := s.defaults(ctx, in)
	return fmt.Sprintf("# Values for release %s.\n%s", in.Name, cmp.Or(defaults, "\n")), err
}

// defaults returns the defaults of the chart as comments, "" without a chart.
func (s source) defaults(ctx context.Context, in form.Input) (string, error) {
	if in.Chart == "" {
		return "", nil
	}
	loaded, err := chartFlags(in).Load(ctx, in.Chart, s.Settings)
	if err != nil {
		return "", err
	}
	chart, err := loaded.Helm()
	if err != nil {
		return "", err
	}
	return charts.Defaults(chart), nil
}

// Save writes edited values to a file, which only the user can read. A file that was changed meanwhile stays as it is.
func (s source) Save(release, path, was, text string) (string, error) {
	if now, err := os.ReadFile(path); err == nil && string(now) == was {
		return path, os.WriteFile(path, []byte(text), 0o600)
	}
	return input.SaveValues(release, text)
}
