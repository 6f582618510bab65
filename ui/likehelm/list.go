package likehelm

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/fatih/color"
	"github.com/gosuri/uitable"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli/output"
	"helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
)

// listRow is a release in helm list.
type listRow struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	Revision   string `json:"revision"`
	Updated    string `json:"updated"`
	Status     string `json:"status"`
	Chart      string `json:"chart"`
	AppVersion string `json:"app_version"`
}

// List prints releases. opts are the flags of the command.
func List(out *bytes.Buffer, format output.Format, releases []*rel1.Release, opts *action.List) error {
	rows, names := []listRow{}, []string{} // [] instead of null if empty
	for _, r := range releases {
		names = append(names, r.Name)
		row := listRow{Name: r.Name, Namespace: r.Namespace, Revision: strconv.Itoa(r.Version), Updated: updatedText(r, opts.TimeFormat), Status: r.Info.Status.String()}
		row.Chart, row.AppVersion = chartVersions(r)
		rows = append(rows, row)
	}
	if opts.Short {
		return encode(out, format, names, func() {
			for _, name := range names {
				fmt.Fprintln(out, name)
			}
		})
	}
	return encode(out, format, rows, func() { listTable(out, rows, !opts.NoHeaders) })
}

// updatedText returns the time of the last deployment in a Go time format.
func updatedText(r *rel1.Release, format string) string {
	switch at := r.Info.LastDeployed; {
	case at.IsZero():
		return "-"
	case format == "":
		return at.String()
	default:
		return at.Format(format)
	}
}

func listTable(out *bytes.Buffer, rows []listRow, head bool) {
	table := uitable.New()
	if head {
		var titles []any
		for _, title := range []string{"NAME", "NAMESPACE", "REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION"} {
			titles = append(titles, color.New(color.Bold).Sprint(title))
		}
		table.AddRow(titles...)
	}
	for _, r := range rows {
		table.AddRow(r.Name, colourNamespace(r.Namespace), r.Revision, r.Updated, colourStatus(common.Status(r.Status)), r.Chart, r.AppVersion)
	}
	fmt.Fprintln(out, table)
}

// historyRow is a revision in helm history.
type historyRow struct {
	Revision         int       `json:"revision"`
	Updated          time.Time `json:"updated,omitzero"`
	Status           string    `json:"status"`
	Chart            string    `json:"chart"`
	AppVersion       string    `json:"app_version"`
	RollbackRevision int       `json:"rollback_revision,omitempty"` // target of a rollback
	Description      string    `json:"description"`
}

// History prints sorted revisions of a release. If rollbacks is set, a column of the table has the
// target revisions of rollbacks.
func History(out *bytes.Buffer, format output.Format, revisions []*rel1.Release, rollbacks bool) error {
	rows := []historyRow{} // [] instead of null if empty
	for _, r := range revisions {
		row := historyRow{Revision: r.Version, Updated: r.Info.LastDeployed, Status: r.Info.Status.String(), RollbackRevision: r.Info.RollbackRevision, Description: r.Info.Description}
		row.Chart, row.AppVersion = chartVersions(r)
		rows = append(rows, row)
	}
	return encode(out, format, rows, func() { historyTable(out, rows, rollbacks) })
}

func historyTable(out *bytes.Buffer, rows []historyRow, rollbacks bool) {
	table := uitable.New()
	add := func(cells []any, rollback, description any) {
		if rollbacks {
			cells = append(cells, rollback)
		}
		table.AddRow(append(cells, description)...)
	}
	add([]any{"REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION"}, "ROLLBACK", "DESCRIPTION")
	for _, r := range rows {
		var to any = ""
		if r.RollbackRevision > 0 {
			to = r.RollbackRevision
		}
		add([]any{r.Revision, r.Updated.Format(time.ANSIC), r.Status, r.Chart, r.AppVersion}, to, r.Description)
	}
	fmt.Fprintln(out, table)
}
