package stack

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
	"lockstep/kube/operation"
	"lockstep/kube/session"
)

func TestNoReleases(t *testing.T) {
	file := &helmfile.File{Path: "f.yaml", Others: []helmfile.Release{{Name: "b"}}, Selectors: []string{"a=b"}}
	if got, want := NoReleases(file).Error(), "f.yaml: no release matches --selector a=b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := NoReleases(&helmfile.File{Path: "-"}).Error(), "standard input: the helmfile defines no releases"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestStackName: an invalid --stack is refused before the first connection.
func TestStackName(t *testing.T) {
	file := &helmfile.File{Path: "f.yaml", Releases: []helmfile.Release{{Name: "a", Installed: true}}}
	connectTo := func(string) (*connect.Client, error) {
		t.Error("connected")
		return nil, errors.New("no cluster")
	}
	for opts, want := range map[*Options]string{
		{File: file, Name: "a b"}: `invalid --stack "a b": use at most 63 letters, digits, "-", "_" and "."; start and end with a letter or digit`,
		{File: &helmfile.File{Unread: []helmfile.Unread{{File: "f.yaml:2", Missing: "sub.yaml"}}}, Name: "a", Prune: true}: "--prune needs all releases of the file, but f.yaml:2 includes sub.yaml, which does not exist; restore it, remove the entry, or omit --prune",
		{File: file, Prune: true}: "--prune needs --stack NAME; use the same name as in earlier runs",
	} {
		if _, err := Prepare(t.Context(), *opts, connectTo); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestPruneNeedsLabels: release records in a database have no labels to find them by.
func TestPruneNeedsLabels(t *testing.T) {
	t.Setenv("HELM_DRIVER", "sql")
	const want = "--prune needs release records in Secrets or ConfigMaps, not in HELM_DRIVER=sql; omit --prune, and remove old releases with: lockstep uninstall NAME"
	s := &Stack{opts: Options{File: &helmfile.File{}, Name: "x", Prune: true}}
	if err := s.checkOptions(); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestReleasesOf: the newest record of a release decides whether it is in the stack and installed, whatever the order in
// which records are listed (S10).
func TestReleasesOf(t *testing.T) {
	record := func(name, version, status, stack string) (r metav1.PartialObjectMetadata) {
		r.Namespace = "ns"
		r.Labels = map[string]string{"name": name, "version": version, "status": status}
		if stack != "" {
			r.Labels[operation.StackLabel] = stack
		}
		return r
	}
	var got []string
	for _, r := range releasesOf([]metav1.PartialObjectMetadata{
		record("kept", "9", "superseded", "shop"), record("installed", "1", "superseded", "shop"), record("again", "1", "uninstalled", "shop"),
		record("moved", "2", "deployed", "other"), record("moved", "1", "superseded", "shop"),
		record("left", "9", "superseded", "shop"), record("left", "10", "deployed", ""),
		record("joined", "1", "superseded", ""), record("joined", "2", "failed", "shop"),
		record("kept", "10", "uninstalled", "shop"), record("installed", "2", "deployed", "shop"), record("again", "2", "deployed", "shop"),
	}, "shop") {
		got = append(got, r.Namespace+"/"+r.Name)
	}
	if want := []string{"ns/installed", "ns/again", "ns/joined"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestDefines: prune never touches a release that the file defines, one that takes no part included, whose cluster is
// unknown (S10).
func TestDefines(t *testing.T) {
	m := &member{Release: helmfile.Release{Name: "a", Namespace: "n"}}
	s := &Stack{members: []*member{m}, opts: Options{File: &helmfile.File{Others: []helmfile.Release{
		{Name: "excluded", Namespace: "n", Context: "somewhere"}, {Name: "default"},
	}}}}
	for id, want := range map[releaseID]bool{
		{place{m.cluster, "n"}, "a"}: true, {place{m.cluster, "m"}, "a"}: false, {place{m.cluster, "n"}, "excluded"}: true,
		{place{m.cluster, "m"}, "excluded"}: false, {place{m.cluster, "m"}, "default"}: true, {place{m.cluster, "n"}, "b"}: false,
	} {
		if got := s.defines(id); got != want {
			t.Errorf("%s/%s: %t", id.namespace, id.name, got)
		}
	}
}

// TestHandovers (S3, S10): an object that one release removes and another one takes over needs an order between the two, unless the
// removal keeps it.
func TestHandovers(t *testing.T) {
	o := plan.Object{Kind: "ConfigMap", Namespace: "n", Name: "moved"}
	for name, test := range map[string]struct {
		aNeedsB, bNeedsA bool
		removed          session.Removed
		want             int
	}{
		"in no order":   {want: 1},
		"handed over":   {aNeedsB: true},
		"created again": {bNeedsA: true},
		"kept":          {removed: session.Removed{Keeps: true}},
	} {
		a, b := newMember(helmfile.Release{Name: "a", Namespace: "n"}, false), newMember(helmfile.Release{Name: "b", Namespace: "n"}, false)
		a.own, b.own = session.NewProvided(), session.NewProvided()
		a.own.Removed[o], b.own.TakenOver[o] = test.removed, true
		if test.aNeedsB {
			a.needs = []*member{b}
		}
		if test.bNeedsA {
			b.needs = []*member{a}
		}
		s := &Stack{members: []*member{a, b}}
		if errs := s.checkHandovers(); len(errs) != test.want {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
