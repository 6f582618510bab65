package stack

import (
	"testing"

	"lockstep/kube/helmfile"
)

func TestNoReleases(t *testing.T) {
	file := &helmfile.File{Path: "f.yaml", Others: []helmfile.Release{{Name: "b"}}, Selectors: []string{"a=b"}}
	if got, want := noReleases(file).Error(), "f.yaml: no release matches --selector a=b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
