package stack

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
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
		{File: file, Prune: true}: "--prune needs --stack NAME; use the same name as in earlier runs",
	} {
		if _, err := Prepare(t.Context(), *opts, connectTo); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestPruneNeedsLabels(t *testing.T) {
	t.Setenv("HELM_DRIVER", "sql")
	const want = "--prune needs release records in Secrets or ConfigMaps, not in HELM_DRIVER=sql; omit --prune, and remove old releases with: lockstep uninstall NAME"
	if _, err := labeledReleases(t.Context(), nil, "x"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestInstalledReleases omits a release whose latest revision is uninstalled, although an earlier one is not.
func TestInstalledReleases(t *testing.T) {
	record := func(name, version, status string) (r metav1.PartialObjectMetadata) {
		r.Namespace = "ns"
		r.Labels = map[string]string{"name": name, "version": version, "status": status}
		return r
	}
	var got []string
	for _, r := range installedReleases([]metav1.PartialObjectMetadata{
		record("kept", "9", "superseded"), record("installed", "1", "superseded"), record("again", "1", "uninstalled"),
		record("kept", "10", "uninstalled"), record("installed", "2", "deployed"), record("again", "2", "deployed"),
	}) {
		got = append(got, r.Namespace+"/"+r.Name)
	}
	if want := []string{"ns/installed", "ns/again"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestOutcomeAfterStoppedRollback counts the releases that a stopped rollback has rolled back apart from deployed ones.
func TestOutcomeAfterStoppedRollback(t *testing.T) {
	s := &Stack{members: []*member{{started: true, rolledBack: true}, {started: true}}}
	if got, want := s.outcome(), "releases: 1 deployed, 1 rolled back"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
