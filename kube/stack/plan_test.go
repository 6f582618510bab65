package stack

import (
	"errors"
	"testing"

	"lockstep/kube/helmfile"
)

// TestAdviceOfAHelmfile names keys of the helmfile, because up has no flag for one release.
func TestAdviceOfAHelmfile(t *testing.T) {
	m := &member{id: "n/a", Release: helmfile.Release{At: "f.yaml:2"}}
	cause := errors.New("Deployment/web already exists: delete it, or take it over with --take-ownership")
	err := m.locate(cause)
	if want := "f.yaml:2: release n/a: Deployment/web already exists: delete it, or take it over with takeOwnership: true"; err.Error() != want || !errors.Is(err, cause) {
		t.Errorf("%v, want %s", err, want)
	}
	file := &helmfile.File{Path: "f.yaml", Others: []helmfile.Release{{Name: "b"}}, Selectors: []string{"a=b"}}
	if got, want := noReleases(file).Error(), "f.yaml: no release matches --selector a=b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
