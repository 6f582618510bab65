package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Short names of the annotations.
const (
	in     = AnnotationGroup
	needs  = AnnotationGroupDependsOn
	layer  = AnnotationLayer
	above  = AnnotationLayerDependsOn
	uses   = AnnotationLayerChart
	weight = AnnotationWeight
	before = AnnotationInstallBefore
)

// apiGroups has the API groups of the kinds in tests. All other kinds are custom.
var apiGroups = map[string]string{
	"Namespace": "", "ConfigMap": "", "Secret": "", "Service": "", "Pod": "", "ServiceAccount": "",
	"Deployment": "apps", "StatefulSet": "apps", "DaemonSet": "apps", "Job": "batch",
	"CustomResourceDefinition": "apiextensions.k8s.io", "PriorityClass": "scheduling.k8s.io",
}

// object parses "Kind/name" or "Kind/namespace/name".
func object(text string) Object {
	parts := strings.Split(text, "/")
	o := Object{Group: "example.com", Kind: parts[0], Name: parts[len(parts)-1]}
	if group, ok := apiGroups[o.Kind]; ok {
		o.Group = group
	}
	if len(parts) == 3 {
		o.Namespace = parts[1]
	}
	return o
}

// res makes a resource with annotations given as keys and values.
func res(chart, what string, annotations ...string) Resource {
	r := Resource{Object: object(what), Chart: chart, Source: strings.ReplaceAll(chart, "/", "/charts/") + "/templates/all.yaml", Annotations: map[string]string{}}
	for i := 0; i < len(annotations); i += 2 {
		r.Annotations[annotations[i]] = annotations[i+1]
	}
	return r
}

// from sets the template of a resource.
func from(source string, r Resource) Resource {
	r.Source = source
	return r
}

// crd makes the CRD of a kind, in the API group that object uses.
func crd(chart, kind string, annotations ...string) Resource {
	r := res(chart, "CustomResourceDefinition/"+strings.ToLower(kind), annotations...)
	r.Defines = GroupKind{"example.com", kind}
	return r
}

// sub makes an enabled subchart, named after the last part of its path.
func sub(c *Chart, dependsOn ...string) Subchart {
	return Subchart{Name: c.Path[strings.LastIndexByte(c.Path, '/')+1:], DependsOn: dependsOn, Chart: c}
}

func chart(path string, subcharts ...Subchart) *Chart {
	return &Chart{Path: path, Subcharts: subcharts}
}

// waiting makes a chart whose own objects wait for subcharts.
func waiting(path string, dependsOn []string, subcharts ...Subchart) *Chart {
	return &Chart{Path: path, DependsOn: dependsOn, Subcharts: subcharts}
}

// show formats groups as "id = objects < dependencies", with a bar between waves.
func show(groups []*Group) []string {
	var lines []string
	for _, g := range groups {
		var b strings.Builder
		at := 0
		for i, w := range g.Waves {
			if i > 0 {
				b.WriteString(" |")
			}
			for _, o := range g.Objects[at : at+w.Count] {
				fmt.Fprintf(&b, " %s", o)
			}
			at += w.Count
			if len(w.Established) > 0 {
				fmt.Fprintf(&b, " (after %v)", w.Established)
			}
		}
		line := g.ID + " =" + b.String()
		if len(g.After) > 0 {
			line += " < " + strings.Join(g.After, " ")
		}
		lines = append(lines, line)
	}
	return lines
}

func sameLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// sameWarnings checks for warnings of the form "rule: part of the message".
func sameWarnings(t *testing.T, got []Warning, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(got); i++ {
		rule, part, _ := strings.Cut(want[i], ": ")
		ok = got[i].Rule == rule && strings.Contains(got[i].Message, part)
	}
	if !ok {
		t.Errorf("warnings:\n  %v\nwant:\n  %s", got, strings.Join(want, "\n  "))
	}
}
