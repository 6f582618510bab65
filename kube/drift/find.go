package drift

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/inspect"
	"lockstep/kube/connect"
	"lockstep/kube/mask"
	"lockstep/kube/overview"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// Find compares releases with the cluster, in the order of the keys. A release that cannot be compared, because it does not
// exist or its latest revision is not deployed, has an Error.
func Find(ctx context.Context, c *connect.Client, keys []overview.Key) ([]inspect.Drift, error) {
	return find(ctx, c, func(f *finder) error {
		byNamespace := map[string][]overview.Key{}
		for _, k := range keys {
			byNamespace[k.Namespace] = append(byNamespace[k.Namespace], k)
		}
		for namespace, wanted := range byNamespace {
			if err := f.read(namespace, wanted); err != nil {
				return err
			}
		}
		for _, k := range keys {
			f.add(k, true)
		}
		return nil
	})
}

// FindAll is like Find for the releases of a namespace, "" for all. It omits those that are uninstalled.
func FindAll(ctx context.Context, c *connect.Client, namespace string) ([]inspect.Drift, error) {
	return find(ctx, c, func(f *finder) error {
		if err := f.list(namespace); err != nil {
			return err
		}
		for _, k := range slices.SortedFunc(maps.Keys(f.latest), func(a, b overview.Key) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		}) {
			f.add(k, f.latest[k].Info.Status != rcommon.StatusUninstalled)
		}
		return nil
	})
}

// finder reads records. The order of its results is that of add.
type finder struct {
	ctx      context.Context
	client   *connect.Client
	mask     *mask.Mask
	latest   map[overview.Key]*rel1.Release
	results  []inspect.Drift
	deployed []*rel1.Release // those to compare
	at       []int           // their indexes in results
}

func find(ctx context.Context, c *connect.Client, readRecords func(*finder) error) ([]inspect.Drift, error) {
	ctx = connect.WithRetryTimeout(ctx, session.CheckRetryTimeout)
	bound, err := c.Bind(ctx, &connect.Writes{})
	if err != nil {
		return nil, err
	}
	if err := bound.CheckReachable(ctx); err != nil {
		return nil, err
	}
	f := &finder{ctx: ctx, client: bound, mask: &mask.Mask{}, latest: map[overview.Key]*rel1.Release{}}
	if err := readRecords(f); err != nil {
		return nil, f.mask.Error(err)
	}
	compared, err := Compare(ctx, bound, f.mask, f.deployed)
	if err != nil {
		return nil, f.mask.Error(err)
	}
	for n, r := range compared {
		f.results[f.at[n]] = r.Drift
	}
	return f.results, nil
}

// read reads the latest revisions of releases in a namespace. All revisions are read, because the mask must know their secrets.
func (f *finder) read(namespace string, wanted []overview.Key) error {
	if len(wanted) > 1 {
		return f.list(namespace)
	}
	s, err := session.New(f.ctx, f.client, session.Common{Release: wanted[0].Name, Namespace: namespace, Mask: f.mask}, &connect.Writes{}, release.NewLedger(namespace, wanted[0].Name))
	if err != nil {
		return err
	}
	all, found, err := release.Read(s.Releases(), wanted[0].Name)
	if err != nil {
		return fmt.Errorf("read release %s in namespace %s: %w", wanted[0].Name, namespace, preflight.ExplainDenied(f.client, err))
	}
	if found {
		f.latest[wanted[0]] = all.Last
	}
	return nil
}

// list reads the latest revisions of all releases in a namespace, "" for all namespaces, with one request.
func (f *finder) list(namespace string) error {
	helm, err := f.client.Helm(namespace)
	if err != nil {
		return err
	}
	helm.Config.Releases.Driver = release.Checked(helm.Config.Releases.Driver, f.mask)
	list, err := helm.Config.Releases.ListReleases()
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

// add adds a release to the results. It adds one without a deployed revision only if reported is set.
func (f *finder) add(k overview.Key, reported bool) {
	rel := f.latest[k]
	d := inspect.Drift{Release: k.Name, Namespace: k.Namespace, Objects: []inspect.DriftedObject{}}
	switch {
	case rel == nil:
		d.Error = (&release.NotFound{Name: k.Name, Namespace: k.Namespace}).Error()
	case rel.Info.Status != rcommon.StatusDeployed:
		d.Revision, d.Error = rel.Version, NotDeployed(rel).Error()
	default:
		f.deployed, f.at = append(f.deployed, rel), append(f.at, len(f.results))
	}
	if d.Error == "" || reported {
		f.results = append(f.results, d)
	}
}

// NotDeployed returns an error that says why a revision cannot be compared with the cluster.
func NotDeployed(rel *rel1.Release) error {
	return fmt.Errorf("revision %d of release %s is %s, so its record does not say what the cluster should have; deploy the release first", rel.Version, rel.Name, rel.Info.Status)
}
