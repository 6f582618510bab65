package refs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
)

// TestImages: the images of all kinds of containers, and of image volumes, are certain; those in arguments, variables and custom
// resources are guesses. Texts that are something else are none.
func TestImages(t *testing.T) {
	for object, want := range map[string][]string{
		"Deployment apps spec: {template: {spec: {initContainers: [{name: i, image: a/init:1}], containers: [{name: c, image: web}], ephemeralContainers: [{name: e, image: dbg}], volumes: [{name: v, image: {reference: a/data:1}}]}}}": {
			"a/init:1 spec.template.spec.initContainers[0].image i", "web spec.template.spec.containers[0].image c", "dbg spec.template.spec.ephemeralContainers[0].image e", "a/data:1 spec.template.spec.volumes[0].image.reference v"},
		"CronJob batch spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: c, image: job:2}]}}}}}": {"job:2 spec.jobTemplate.spec.template.spec.containers[0].image c"},
		"Pod  spec: {containers: [{name: c, image: op, args: [--image=quay.io/a/b:1.0, a/b, 'http://a/b:1', --port=a/b:, x, 'reg:5000/a@sha256:" + strings.Repeat("a", 64) + "'], env: [{name: SIDECAR, value: 'proxy/v2:1.2'}, {name: URL, value: 'postgres://h/db:1'}]}]}": {
			"op spec.containers[0].image c", "quay.io/a/b:1.0 spec.containers[0].args[0] c?", "reg:5000/a@sha256:" + strings.Repeat("a", 64) + " spec.containers[0].args[5] c?", "proxy/v2:1.2 spec.containers[0].env[0].value c?"},
		"Cluster pg.example.com spec: {imageName: a/pg:16, image: pg, sidecar: {registry: ghcr.io, repository: a/exporter, tag: v1}, other: {repository: b, tag: 2}, list: [{x: c/d:1}], imagePullPolicy: Always, note: no/image}": {
			"pg spec.image ?", "a/pg:16 spec.imageName ?", "c/d:1 spec.list[0].x ?", "ghcr.io/a/exporter:v1 spec.sidecar ?"},
		"ConfigMap  data: {image: a/b:1}":                         nil,
		"VolumeSnapshot snapshot.storage.k8s.io spec: {x: a/b:1}": nil,
		"Pod  spec: {containers: [{image: 3}, x]}":                nil,
	} {
		kind, rest, _ := strings.Cut(object, " ")
		group, text, _ := strings.Cut(rest, " ")
		var fields map[string]any
		if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range Images(plan.Object{Group: group, Kind: kind}, fields) {
			by := i.By
			if i.Guess {
				by += "?"
			}
			got = append(got, fmt.Sprintf("%s %s %s", i.Name, i.Path, by))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", object, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
