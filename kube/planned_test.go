package kube

import (
	"bytes"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube/release"
)

// TestRunsWhatWasPlanned installs and upgrades a chart whose templates are random, look
// things up, and are in part made by a post-renderer that answers differently each time:
// what the plan has is what is applied, stored and noted (R31).
func TestRunsWhatWasPlanned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := makeChart(t, files{
		"templates/NOTES.txt": `{{ randAlphaNum 20 }}`,
		"templates/all.yaml": `
apiVersion: v1
kind: Secret
metadata: {name: random, annotations: {example.com/checksum: {{ include (print $.Template.BasePath "/other.yaml") . | sha256sum }}}}
stringData: {password: {{ randAlphaNum 20 }}}
---
{{- $seen := lookup "v1" "ConfigMap" .Release.Namespace "seen" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ if $seen }}later{{ else }}first{{ end }}}`,
		"templates/other.yaml": configMap("other", nil, "at: {{ randAlphaNum 20 }}"),
	})
	post := &counting{}
	assert := func(op *Operation, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		planned := *op.Preview()
		// Now the look-up would find it.
		_, _ = r.cluster.CoreV1().ConfigMaps(r.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "seen"}}, metav1.CreateOptions{})
		r.mustRun(op, nil)
		stored, err := r.helm().Releases.Last("t")
		if err != nil {
			t.Fatal(err)
		}
		rel, err := release.AsV1(stored)
		if err != nil {
			t.Fatal(err)
		}
		if rel.Manifest != planned.Manifest || rel.Info.Notes != planned.Info.Notes {
			t.Errorf("planned\n%s\n%s\nstored\n%s\n%s", planned.Manifest, planned.Info.Notes, rel.Manifest, rel.Info.Notes)
		}
		live, err := r.cluster.CoreV1().Secrets(r.namespace).Get(t.Context(), "random", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains([]byte(planned.Manifest), live.Data["password"]) || len(live.Data["password"]) == 0 {
			t.Errorf("the password that was applied is not the one that was planned")
		}
	}
	assert(r.install("plain", use(chart, func(i *Install) { i.PostRenderer = post })))
	if got := r.configMaps(r.namespace); fmt.Sprint(got) != "[first other seen]" {
		t.Errorf("there are %v", got)
	}
	assert(r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.PostRenderer = post })))
	if post.runs != 2 {
		t.Errorf("the post-renderer ran %d times for two revisions", post.runs)
	}
}

// counting is a post-renderer that makes something else each time.
type counting struct{ runs int }

func (c *counting) Run(manifests *bytes.Buffer) (*bytes.Buffer, error) {
	c.runs++
	return bytes.NewBufferString(fmt.Sprintf("%s\n# run %d\n", manifests, c.runs)), nil
}
