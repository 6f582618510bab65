package plan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestArrange(t *testing.T) {
	tests := []struct {
		name      string
		resources []Resource
		want      string // waves, separated by |
		refused   string
	}{{
		name: "R15 Helm's order, unknown kinds last by name, objects of a kind in parallel",
		resources: []Resource{
			res("", "Zebra/z"), res("", "Job/j"), res("", "Deployment/b"), res("", "Deployment/n/a"), res("", "Service/s"),
			res("", "Secret/s"), res("", "ConfigMap/c"), res("", "Apple/a"), res("", "PriorityClass/p"),
		},
		want: "PriorityClass/p | Secret/s | ConfigMap/c | Service/s | Deployment/a Deployment/b | Job/j | Apple/a | Zebra/z",
	}, {
		name: "R16 install-before moves an object no further than necessary",
		resources: []Resource{
			res("", "SecurityGroupPolicy/p", before, "Deployment,Statefulset,DaemonSet"),
			res("", "SecurityGroupPolicy/q"),
			res("", "Service/s"), res("", "DaemonSet/d"), res("", "Deployment/d"), res("", "StatefulSet/s"),
		},
		want: "Service/s | SecurityGroupPolicy/p | DaemonSet/d | Deployment/d | StatefulSet/s | SecurityGroupPolicy/q",
	}, {
		name: "R16 unknown kinds, another case, and kinds that come later anyway change nothing",
		resources: []Resource{
			res("", "ConfigMap/c", before, " Deployment , ,Nothing"), res("", "ConfigMap/d"), res("", "Deployment/d", before, "configmap"),
		},
		want: "ConfigMap/c ConfigMap/d | Deployment/d",
	}, {
		name: "R16 the object's own kind, and a custom kind",
		resources: []Resource{
			res("", "Deployment/a"), res("", "Deployment/b", before, "Deployment"), res("", "Gadget/g"), res("", "Widget/w", before, "Gadget"),
		},
		want: "Deployment/b | Deployment/a | Widget/w | Gadget/g",
	}, {
		name: "R16 chains of install-before",
		resources: []Resource{
			res("", "Widget/w", before, "Gadget"), res("", "Gadget/g", before, "Service"), res("", "Gadget/h"),
			res("", "Gizmo/z", before, "Widget,Job"), res("", "Secret/s"), res("", "Service/s"), res("", "Job/j"),
		},
		want: "Secret/s | Gizmo/z | Widget/w | Gadget/g | Service/s | Job/j | Gadget/h",
	}, {
		name: "R16 objects with different lists but the same place share a wave",
		resources: []Resource{
			res("", "Widget/b", before, "Service"), res("", "Widget/a", before, "Service,Job"), res("", "Service/s"), res("", "Job/j"),
		},
		want: "Widget/a Widget/b | Service/s | Job/j",
	}, {
		name: "R16 contradictory annotations are ignored, others are kept",
		resources: []Resource{
			res("", "Service/s", before, "ConfigMap"), res("", "ConfigMap/c", before, "Service"),
			res("", "Widget/w", before, "ConfigMap"), res("", "Deployment/d", before, "Deployment,Job"), res("", "Deployment/e", before, "Deployment"), res("", "Job/j"),
		},
		want:    "Widget/w | ConfigMap/c | Service/s | Deployment/d Deployment/e | Job/j",
		refused: "ConfigMap/c Deployment/d Deployment/e Service/s",
	}, {
		name: "R17 namespaces and CRDs first, custom resources once their CRD is established",
		resources: []Resource{
			crd("", "Widget"), crd("", "Service"), res("", "Widget/w"), res("", "Gadget/g"), res("", "Namespace/n"),
			res("", "PriorityClass/p"), res("", "ConfigMap/n/c"),
		},
		want: "Namespace/n | CustomResourceDefinition/service CustomResourceDefinition/widget | PriorityClass/p | ConfigMap/c | " +
			"Gadget/g | Widget/w (after [CustomResourceDefinition/widget])",
	}, {
		name: "R17 a custom kind named Namespace",
		resources: []Resource{
			func() Resource {
				r := res("", "Namespace/bus")
				r.Object.Group = "example.com"
				return r
			}(),
			crd("", "Namespace"),
		},
		want: "CustomResourceDefinition/namespace | Namespace/bus (after [CustomResourceDefinition/namespace])",
	}, {
		name: "R16 R17 install-before does not move an object before its namespace or CRD",
		resources: []Resource{
			crd("", "Widget"), res("", "Namespace/n"), res("", "Widget/w", before, "Namespace"), res("", "Widget/x", before, "ConfigMap"),
			res("", "ConfigMap/n/c", before, "CustomResourceDefinition"), res("", "ConfigMap/n/d", before, "Namespace"), res("", "Secret/m/s", before, "Namespace"),
		},
		want: "Secret/s | Namespace/n | ConfigMap/c | CustomResourceDefinition/widget | ConfigMap/d | Widget/w Widget/x (after [CustomResourceDefinition/widget])",
		// Widget/x should come before a ConfigMap that should come before the CRD of Widget.
		refused: "ConfigMap/d Widget/w Widget/x",
	}, {
		name: "R17 a CRD that defines its own kind",
		resources: []Resource{func() Resource {
			r := crd("", "x")
			r.Defines = GroupKind{"apiextensions.k8s.io", "CustomResourceDefinition"}
			return r
		}()},
		want: "CustomResourceDefinition/x",
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for range 5 {
				got, refused := arranged(test.resources)
				if got != test.want || refused != test.refused {
					t.Fatalf("got  %s\nwant %s\nrefused %s\nwant    %s", got, test.want, refused, test.refused)
				}
				rand.Shuffle(len(test.resources), func(i, j int) {
					test.resources[i], test.resources[j] = test.resources[j], test.resources[i]
				})
			}
		})
	}
}

// arranged returns the order inside a group of the resources.
func arranged(resources []Resource) (waves, refused string) {
	a := arrange(ungrouped(resources))
	line := show([]*Group{{Objects: a.objects, Waves: a.waves}})[0]
	_, waves, _ = strings.Cut(line, "= ")
	var names []string
	for _, o := range a.refused {
		names = append(names, o.object.String())
	}
	return waves, strings.Join(names, " ")
}

func TestIgnoredInstallBeforeIsAWarning(t *testing.T) { // R16, R17
	const ignored = ": helm.sh/install-before is ignored, because "
	for _, tt := range []struct {
		name      string
		resources []Resource
		want      []string
	}{
		{"two objects", []Resource{res("shop", "Service/s", before, "Job"), res("shop", "Job/j", before, "Service"), res("shop", "Pod/p")}, []string{
			"R16: shop: Job/j" + ignored + "Service/s asks for the opposite order; remove one of the two annotations",
			"R16: shop: Service/s" + ignored + "Job/j asks for the opposite order; remove one of the two annotations",
		}},
		{"two objects against one", []Resource{res("shop", "Service/s", before, "Job"), res("shop", "Job/a", before, "Service"), res("shop", "Job/b", before, "Service")}, []string{
			"R16: shop: Job/a" + ignored + "Service/s asks for the opposite order",
			"R16: shop: Job/b" + ignored + "Service/s asks for the opposite order",
			"R16: shop: Service/s" + ignored + "Job/a, Job/b ask for the opposite order; remove the annotation on one side",
		}},
		{"a cycle of three", []Resource{res("shop", "Service/s", before, "Job"), res("shop", "Job/j", before, "Pod"), res("shop", "Pod/p", before, "Service")}, []string{
			"R16: shop: Job/j" + ignored + "it forms a cycle with those of Pod/p, Service/s; remove one of these annotations",
			"R16: shop: Pod/p" + ignored + "it forms a cycle with those of Service/s, Job/j",
			"R16: shop: Service/s" + ignored + "it forms a cycle with those of Job/j, Pod/p",
		}},
		{"their own namespaces", []Resource{
			res("shop", "Namespace/m"), res("shop", "Namespace/n"), res("shop", "Secret/m/a", before, "Namespace"), res("shop", "Secret/n/b", before, "Namespace"),
		}, []string{
			"R16: shop: Secret/a" + ignored + "it would put the object before Namespace/m, which must come first; remove the annotation",
			"R16: shop: Secret/b" + ignored + "it would put the object before Namespace/n, which must come first; remove the annotation",
		}},
		{"its own CRD", []Resource{crd("shop", "Widget"), res("shop", "Widget/w", before, "CustomResourceDefinition")}, []string{
			"R16: shop: Widget/w" + ignored + "it would put the object before CustomResourceDefinition/widget, which must come first",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan, err := Build(nil, tt.resources)
			if err != nil {
				t.Fatal(err)
			}
			sameWarnings(t, plan.Warnings, tt.want)
		})
	}
}

func TestArrangeObeysInstallBefore(t *testing.T) { // R16, R17
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var resources []Resource
		makeResources(random, chart("shop"), &resources)
		a := arrange(ungrouped(resources))
		at := make(map[Object]int)
		n := 0
		for i, w := range a.waves {
			for _, o := range a.objects[n : n+w.Count] {
				at[o] = i
			}
			n += w.Count
		}
		for _, r := range resources {
			if slices.ContainsFunc(a.refused, func(o refusal) bool { return o.object == r.Object }) || slices.Contains(a.duplicates, r.Object) {
				continue
			}
			for _, other := range resources {
				early := at[r.Object] < at[other.Object]
				if slices.Contains(parseKinds(r.Annotations[before]), other.Object.Kind) && other.Object.Kind != r.Object.Kind && !early {
					t.Fatalf("%s is not before %s: %v", r.Object, other.Object, a)
				}
			}
		}
	}
}
