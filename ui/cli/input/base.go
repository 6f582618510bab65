package input

import (
	"context"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/ui/cli/command"
)

// BaseFlag is the flag of BaseRevision.
const BaseFlag = "values-from-revision"

// BaseRevision is a revision of a release whose values count as a first values file. The zero value is none.
type BaseRevision struct {
	Release  string
	Revision int
}

// Merge puts values on top of those of the revision.
func (b BaseRevision) Merge(ctx context.Context, a *command.App, namespace string, values map[string]any) (map[string]any, error) {
	if b.Revision == 0 {
		return values, nil
	}
	old, err := b.values(ctx, a, namespace)
	if err != nil {
		return nil, fmt.Errorf("--%s %d: %w", BaseFlag, b.Revision, err)
	}
	return loader.MergeMaps(charts.CopyValues(old), values), nil
}

func (b BaseRevision) values(ctx context.Context, a *command.App, namespace string) (map[string]any, error) {
	return command.Cancelable(ctx, func(ctx context.Context) (map[string]any, error) {
		found, err := a.HistoryIn(ctx, namespace, b.Release)
		if err != nil {
			return nil, fmt.Errorf("read the revisions of release %s in namespace %s: %w", b.Release, namespace, err)
		}
		at := slices.IndexFunc(found, func(r *rel1.Release) bool { return r.Version == b.Revision })
		if at < 0 {
			return nil, fmt.Errorf("release %s has no such revision; list them with: "+text.Program+" history %[1]s -n %s", b.Release, namespace)
		}
		return found[at].Config, nil
	})
}
