package command

import (
	"context"
	"fmt"
	"log/slog"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/release"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

// ConnectHelm connects Helm's actions to a namespace, or to all if it is empty. Their requests end with ctx.
func (a *App) ConnectHelm(ctx context.Context, namespace string) error {
	return a.connectHelm(ctx, a.Helm, namespace)
}

// helmIn returns Helm's configuration for a namespace. Unlike ConnectHelm, it may be called by several goroutines.
func (a *App) helmIn(ctx context.Context, namespace string) (*action.Configuration, error) {
	config := action.NewConfiguration()
	return config, a.connectHelm(ctx, config, namespace)
}

func (a *App) connectHelm(ctx context.Context, config *action.Configuration, namespace string) error {
	client, err := a.Connect()
	if err != nil {
		return err
	}
	config.SetLogger(slog.Default().Handler())
	return client.InitHelm(ctx, config, namespace)
}

// Releases returns the latest revision of each release in a namespace.
func (a *App) Releases(ctx context.Context, namespace string) ([]*rel1.Release, error) {
	config, err := a.helmIn(ctx, namespace)
	if err != nil {
		return nil, err
	}
	list := action.NewList(config)
	list.All, list.Limit = true, 0
	list.SetStateMask()
	found, err := list.Run()
	if err != nil {
		return nil, err
	}
	return V1Releases(found)
}

// V1Release converts a release to v1, currently the only format.
func V1Release(r release.Releaser) (*rel1.Release, error) {
	v1, ok := r.(*rel1.Release)
	if !ok {
		return nil, fmt.Errorf("unsupported release type: %T", r)
	}
	return v1, nil
}

// V1Releases converts releases to v1.
func V1Releases(found []release.Releaser) (all []*rel1.Release, err error) {
	for _, x := range found {
		r, err := V1Release(x)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// History returns the revisions of a release, oldest first.
func (a *App) History(name string) ([]*rel1.Release, error) { return history(a.Helm, name) }

// HistoryIn is like History for a release in a namespace, and needs no ConnectHelm.
func (a *App) HistoryIn(ctx context.Context, namespace, name string) ([]*rel1.Release, error) {
	config, err := a.helmIn(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return history(config, name)
}

func history(config *action.Configuration, name string) ([]*rel1.Release, error) {
	found, err := action.NewHistory(config).Run(name)
	if err != nil {
		return nil, err
	}
	revisions, err := V1Releases(found)
	releaseutil.SortByRevision(revisions)
	return revisions, err
}
