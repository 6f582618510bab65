package drift

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"

	"lockstep/engine/inspect"
	"lockstep/kube/connect"
	"lockstep/kube/mask"
	"lockstep/kube/overview"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// Find compares releases with the cluster, in the order of the keys; nil stands for all that are not uninstalled. A release that cannot
// be compared, because it does not exist or its latest revision is not deployed, has an Error.
func Find(ctx context.Context, c *connect.Client, keys []overview.Key) ([]inspect.Drift, error) {
	ctx = connect.WithRetryTimeout(ctx, session.CheckRetryTimeout)
	writes, secrets := &connect.Writes{}, &mask.Mask{}
	writes.LearnRefused(secrets.AddObject)
	bound, err := c.Bind(ctx, writes)
	if err != nil {
		return nil, err
	}
	if err := bound.CheckReachable(ctx); err != nil {
		return nil, err
	}
	f := &finder{client: bound, mask: secrets, latest: map[overview.Key]*rel1.Release{}}
	if keys == nil {
		keys, err = f.readAll()
	} else {
		err = f.read(keys)
	}
	if err != nil {
		return nil, f.mask.Error(err)
	}
	results, deployed, at := make([]inspect.Drift, len(keys)), []*rel1.Release{}, []int{}
	for n, k := range keys {
		results[n] = inspect.Drift{Release: k.Name, Namespace: k.Namespace, Objects: []inspect.DriftedObject{}}
		switch rel := f.latest[k]; {
		case rel == nil:
			results[n].Error = (&release.NotFound{Name: k.Name, Namespace: k.Namespace}).Error()
		case rel.Info.Status != rcommon.StatusDeployed:
			results[n].Revision, results[n].Error = rel.Version, NotDeployed(rel).Error()
		default:
			deployed, at = append(deployed, rel), append(at, n)
		}
	}
	compared, err := Compare(ctx, bound, f.mask, deployed, nil)
	for n, r := range compared {
		results[at[n]] = r.Drift
	}
	explainDeletions(ctx, bound, results)
	return results, f.mask.Error(err)
}

// explainDeletions replaces the results of releases whose namespace is being deleted: records and objects are gone because of that,
// and nothing can be repaired.
func explainDeletions(ctx context.Context, c *connect.Client, results []inspect.Drift) {
	deletions := map[string]string{}
	for n, d := range results {
		if d.Error == "" && !slices.ContainsFunc(d.Objects, func(o inspect.DriftedObject) bool { return o.Gone }) {
			continue
		}
		text, known := deletions[d.Namespace]
		if !known {
			text = preflight.DeletionOf(ctx, c, d.Namespace)
			deletions[d.Namespace] = text
		}
		if text != "" {
			results[n].Error, results[n].Objects = text, []inspect.DriftedObject{}
		}
	}
}

// finder reads the latest revisions of releases. All revisions are read, because the mask must know their secrets.
type finder struct {
	client *connect.Client
	mask   *mask.Mask
	latest map[overview.Key]*rel1.Release
}

// read reads releases.
func (f *finder) read(keys []overview.Key) (err error) {
	byNamespace := map[string][]overview.Key{}
	for _, k := range keys {
		byNamespace[k.Namespace] = append(byNamespace[k.Namespace], k)
	}
	for namespace, wanted := range byNamespace {
		if len(wanted) > 1 {
			err = f.list(namespace)
		} else {
			err = f.readOne(wanted[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) readOne(k overview.Key) error {
	records, err := f.records(k.Namespace)
	if err != nil {
		return err
	}
	all, found, err := release.Read(records, k.Name)
	if err != nil {
		return fmt.Errorf("read release %s in namespace %s: %w", k.Name, k.Namespace, preflight.ExplainDenied(f.client, err))
	}
	if found {
		f.latest[k] = all.Last
	}
	return nil
}

// readAll reads all releases, and returns the keys of those that are not uninstalled.
func (f *finder) readAll() ([]overview.Key, error) {
	err := f.list("")
	maps.DeleteFunc(f.latest, func(_ overview.Key, rel *rel1.Release) bool { return rel.Info.Status == rcommon.StatusUninstalled })
	return slices.SortedFunc(maps.Keys(f.latest), func(a, b overview.Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}), err
}

// records returns the records of a namespace, "" for all, whose secrets the mask learns.
func (f *finder) records(namespace string) (*storage.Storage, error) {
	helm, err := f.client.Helm(namespace)
	if err != nil {
		return nil, err
	}
	helm.Config.Releases.Driver = release.Checked(helm.Config.Releases.Driver, f.mask)
	return helm.Config.Releases, nil
}

// list reads the latest revisions of all releases in a namespace, "" for all namespaces, with one request.
func (f *finder) list(namespace string) error {
	records, err := f.records(namespace)
	if err != nil {
		return err
	}
	list, err := records.ListReleases()
	if err != nil {
		return fmt.Errorf("list the releases: %w", preflight.ExplainDenied(f.client, err))
	}
	for _, x := range list {
		rel, err := release.AsV1(x)
		if err != nil {
			return err
		}
		k := overview.Key{Namespace: rel.Namespace, Name: rel.Name}
		if before := f.latest[k]; before == nil || before.Version < rel.Version {
			f.latest[k] = rel
		}
	}
	return nil
}

// NotDeployed returns an error that says why a revision cannot be compared with the cluster.
func NotDeployed(rel *rel1.Release) error {
	return fmt.Errorf("revision %d of release %s is %s, so its record does not say what the cluster should have; deploy the release first", rel.Version, rel.Name, rel.Info.Status)
}
