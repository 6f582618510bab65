package likehelm

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gosuri/uitable"
	"helm.sh/helm/v4/pkg/cli/output"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
)

// revision is one revision of a release in its history.
type revision struct {
	Revision    int       `json:"revision"`
	Updated     time.Time `json:"updated,omitzero"`
	Status      string    `json:"status"`
	Chart       string    `json:"chart"`
	AppVersion  string    `json:"app_version"`
	RolledBack  int       `json:"rollback_revision,omitempty"` // the revision that was gone back to
	Description string    `json:"description"`
}

// History prints the revisions of a release, which come in their order. With
// rollbacks a table has a column of the revisions that were gone back to.
func History(out *bytes.Buffer, format output.Format, revisions []*rel1.Release, rollbacks bool) error {
	rows := []revision{} // none are [], not null
	for _, r := range revisions {
		row := revision{Revision: r.Version, Updated: r.Info.LastDeployed, Status: r.Info.Status.String(), RolledBack: r.Info.RollbackRevision, Description: r.Info.Description}
		row.Chart, row.AppVersion = chartOf(r)
		rows = append(rows, row)
	}
	return encode(out, format, rows, func() { historyTable(out, rows, rollbacks) })
}

func historyTable(out *bytes.Buffer, rows []revision, rollbacks bool) {
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
		if r.RolledBack > 0 {
			to = r.RolledBack
		}
		add([]any{r.Revision, r.Updated.Format(time.ANSIC), r.Status, r.Chart, r.AppVersion}, to, r.Description)
	}
	fmt.Fprintln(out, table)
}
