package preview

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/preview"
)

// transition is an object before and after an upgrade: its fields besides the metadata, as YAML in one line.
type transition struct {
	name, kind string // the kind with its API version
	before     string
	after      string
	edit       string // a merge patch by another client between them
	random     bool   // the cluster gives it random values
}

// pod returns the spec of a Deployment without pods.
func pod(name, container, more string) string {
	return "spec: {replicas: 0, selector: {matchLabels: {app: " + name + "}}, template: {metadata: {labels: {app: " + name + "}}, spec: {containers: [{name: main, image: example/app:1.0" + container + "}]" + more + "}}}"
}

func deployment(name, before, after string) transition {
	return transition{name: name, kind: "apps/v1/Deployment", before: pod(name, before, ""), after: pod(name, after, "")}
}

const custom = "transitions.example.com/v1"

var transitions = []transition{
	deployment("env-order", ", env: [{name: A, value: a}, {name: B, value: b}, {name: C, value: c}]", ", env: [{name: C, value: c}, {name: B, value: b}, {name: A, value: a}]"),
	deployment("env-from", ", env: [{name: A, value: a}]", ", env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"),
	deployment("env-empty", ", env: [{name: A, value: a}]", ", env: [{name: A, value: ''}]"),
	deployment("env-none", ", env: [{name: A, value: a}]", ""),
	deployment("env-list-empty", ", env: [{name: A, value: a}]", ", env: []"),
	deployment("quantity", ", resources: {limits: {cpu: 1000m, memory: 1Gi}}", ", resources: {limits: {cpu: 1, memory: 1024Mi}}"),
	deployment("resources-gone", ", resources: {limits: {cpu: 1000m, memory: 1Gi}, requests: {cpu: 1m}}", ", resources: {limits: {cpu: 1}}"),
	deployment("two-protocols", ", ports: [{containerPort: 53, protocol: TCP}]", ", ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]"),
	deployment("two-protocols-less", ", ports: [{name: a, containerPort: 53, protocol: TCP}, {name: b, containerPort: 53, protocol: UDP}]", ", ports: [{name: b, containerPort: 53, protocol: UDP}]"),
	deployment("port-renamed", ", ports: [{name: http, containerPort: 80}]", ", ports: [{name: web, containerPort: 80}]"),
	deployment("port-moved", ", ports: [{name: http, containerPort: 80}]", ", ports: [{name: http, containerPort: 8080}]"),
	deployment("args", ", args: [a, b, c]", ", args: [b]"),
	deployment("probe-default", ", readinessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 10}", ", readinessProbe: {httpGet: {path: /, port: 80}}"),
	deployment("probe-port", ", ports: [{name: web, containerPort: 80}], readinessProbe: {httpGet: {path: /, port: 80}}", ", ports: [{name: web, containerPort: 80}], readinessProbe: {httpGet: {path: /, port: web}}"),
	deployment("pull-policy", ", imagePullPolicy: Always", ""),
	deployment("command-null", ", command: [x], args: [other]", ", command: null, args: [other]"),
	deployment("mounts", ", volumeMounts: []", ""),
	{name: "volumes", kind: "apps/v1/Deployment", before: pod("volumes", "", ", volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {}}]"), after: pod("volumes", "", ", volumes: [{name: b, emptyDir: {medium: Memory}}]")},
	{name: "sidecar", kind: "apps/v1/Deployment", before: pod("sidecar", "", ""), after: strings.Replace(pod("sidecar", "", ""), "containers: [", "containers: [{name: first, image: example/app:1.0}, ", 1)},
	{name: "init", kind: "apps/v1/Deployment", before: pod("init", "", ", initContainers: [{name: a, image: example/app:1.0}, {name: b, image: example/app:1.0}]"), after: pod("init", "", ", initContainers: [{name: b, image: example/app:1.0}, {name: a, image: example/app:1.0}]")},
	{name: "tolerations", kind: "apps/v1/Deployment", before: pod("tolerations", "", ", tolerations: [{key: a, operator: Exists}], nodeSelector: {a: b}, hostAliases: [{ip: 10.0.0.1, hostnames: [a]}]"), after: pod("tolerations", "", ", tolerations: [], nodeSelector: {c: d}, hostAliases: [{ip: 10.0.0.2, hostnames: [a]}]")},
	{name: "security", kind: "apps/v1/Deployment", before: pod("security", "", ", securityContext: {runAsUser: 1, fsGroup: 2}, serviceAccountName: x"), after: pod("security", "", ", securityContext: {}")},
	{name: "topology", kind: "apps/v1/Deployment", before: pod("topology", "", ", topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 1, topologyKey: b, whenUnsatisfiable: DoNotSchedule}]"), after: pod("topology", "", ", topologySpreadConstraints: [{maxSkew: 2, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]")},
	{name: "replicas-unset", kind: "apps/v1/Deployment", before: pod("replicas-unset", "", ""), after: strings.Replace(pod("replicas-unset", "", ""), "replicas: 0, ", "replicas: null, ", 1)},
	{name: "scaled", kind: "apps/v1/Deployment", before: strings.Replace(pod("scaled", "", ""), "replicas: 0, ", "", 1), after: strings.Replace(pod("scaled", ", env: [{name: A, value: a}]", ""), "replicas: 0, ", "", 1), edit: `{"spec":{"replicas":0}}`},
	{name: "service-port", kind: "v1/Service", before: "spec: {ports: [{name: a, port: 80}, {name: b, port: 81}]}", after: "spec: {ports: [{name: b, port: 81}, {name: a, port: 80, targetPort: web}]}"},
	{name: "service-headless", kind: "v1/Service", before: "spec: {type: ClusterIP, ports: [{port: 80}]}", after: "spec: {type: NodePort, ports: [{port: 80}]}", random: true},
	{name: "service-external", kind: "v1/Service", before: "spec: {type: NodePort, ports: [{port: 80}]}", after: "spec: {type: ClusterIP, ports: [{port: 80}]}", random: true},
	{name: "service-name", kind: "v1/Service", before: "spec: {type: ExternalName, externalName: a.example.com}", after: "spec: {type: ExternalName, externalName: b.example.com}"},
	{name: "service-to-name", kind: "v1/Service", before: "spec: {type: ClusterIP, ports: [{port: 80}], selector: {a: b}}", after: "spec: {type: ExternalName, externalName: b.example.com}", random: true},
	{name: "data-null", kind: "v1/ConfigMap", before: "data: {a: x, b: other}", after: "data: {a: null, b: other}"},
	{name: "data-empty", kind: "v1/ConfigMap", before: "data: {a: x, b: other}", after: "data: {}"},
	{name: "data-gone", kind: "v1/ConfigMap", before: "data: {a: x, b: other}", after: ""},
	{name: "data-edited", kind: "v1/ConfigMap", before: "data: {a: x, b: other}", after: "data: {b: z}", edit: `{"data":{"a":"edited","c":"theirs"}}`},
	{name: "data-removed", kind: "v1/ConfigMap", before: "data: {a: x, b: other}", after: "data: {a: x, b: z}", edit: `{"data":{"a":null}}`},
	{name: "secret", kind: "v1/Secret", before: "data: {a: eA==}\nstringData: {b: other}", after: "stringData: {a: x2}"},
	{name: "claims", kind: "networking.k8s.io/v1/Ingress", before: "spec: {rules: [{host: a.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: x, port: {number: 80}}}}]}}], tls: [{hosts: [a.example], secretName: s}]}", after: "spec: {rules: [{host: b.example, http: {paths: [{path: /, pathType: Exact, backend: {service: {name: x, port: {name: web}}}}]}}]}"},
	{name: "role", kind: "rbac.authorization.k8s.io/v1/Role", before: "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]", after: "rules: []"},
	{name: "account", kind: "v1/ServiceAccount", before: "imagePullSecrets: [{name: a}, {name: b}]", after: "imagePullSecrets: [{name: b}]"},
	{name: "policy", kind: "networking.k8s.io/v1/NetworkPolicy", before: "spec: {podSelector: {}, ingress: [{ports: [{port: 80, protocol: TCP}]}]}", after: "spec: {podSelector: {}, ingress: [{ports: [{port: web}]}, {}]}"},
	{name: "hpa", kind: "autoscaling/v2/HorizontalPodAutoscaler", before: "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}, maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}", after: "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}, maxReplicas: 4, minReplicas: 2}"},
	{name: "cr-map-empty", kind: custom + "/Free", before: "spec: {b: {c: 1}, d: 1}", after: "spec: {b: {}, d: 1}"},
	{name: "cr-map-gone", kind: custom + "/Free", before: "spec: {b: {c: 1}, d: 1}", after: "spec: {d: 1}"},
	{name: "cr-map-null", kind: custom + "/Free", before: "spec: {b: {c: 1}, d: 1}", after: "spec: {b: null, d: 1}"},
	{name: "cr-to-scalar", kind: custom + "/Free", before: "spec: {b: {c: 1}}", after: "spec: {b: x}"},
	{name: "cr-to-map", kind: custom + "/Free", before: "spec: {b: x}", after: "spec: {b: {c: 1}}"},
	{name: "cr-list", kind: custom + "/Free", before: "spec: {l: [{name: a, x: 1}, {name: b}]}", after: "spec: {l: [{name: b}]}"},
	{name: "cr-list-empty", kind: custom + "/Free", before: "spec: {l: [1, 2]}", after: "spec: {l: []}"},
	{name: "cr-all-gone", kind: custom + "/Free", before: "spec: {b: {c: {d: 1}}}", after: ""},
	{name: "cr-spec-empty", kind: custom + "/Free", before: "spec: {b: {c: {d: 1}}}", after: "spec: {}"},
	{name: "cr-edited", kind: custom + "/Free", before: "spec: {b: {c: 1}}", after: "spec: {b: {}}", edit: `{"spec":{"b":{"e":1}}}`},
	{name: "cr-edited-removed", kind: custom + "/Free", before: "spec: {b: {c: 1}, d: 1}", after: "spec: {b: {c: 2}, d: 1}", edit: `{"spec":{"d":2,"b":null}}`},
	{name: "typed-default", kind: custom + "/Typed", before: "spec: {size: 3, tags: {a: b}}", after: "spec: {tags: {c: d}}"},
	{name: "typed-list", kind: custom + "/Typed", before: "spec: {items: [{id: a, v: 1}, {id: b, v: 2}]}", after: "spec: {items: [{id: b, v: 3}]}"},
	{name: "typed-port", kind: custom + "/Typed", before: "spec: {port: 80}", after: "spec: {port: web}"},
	{name: "typed-set", kind: custom + "/Typed", before: "spec: {set: [a, b]}", after: "spec: {set: [c, a]}"},
	{name: "typed-atomic", kind: custom + "/Typed", before: "spec: {atomic: {a: 1, b: 2}}", after: "spec: {atomic: {b: 2}}"},
	{name: "typed-null", kind: custom + "/Typed", before: "spec: {maybe: x, size: 2}", after: "spec: {maybe: null, size: null}"},
}

const customKinds = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: frees.transitions.example.com}
spec:
  group: transitions.example.com
  scope: Namespaced
  names: {kind: Free, listKind: FreeList, plural: frees, singular: free}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: typeds.transitions.example.com}
spec:
  group: transitions.example.com
  scope: Namespaced
  names: {kind: Typed, listKind: TypedList, plural: typeds, singular: typed}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, default: 1}
              maybe: {type: string, nullable: true}
              tags: {type: object, additionalProperties: {type: string}}
              port: {x-kubernetes-int-or-string: true}
              set: {type: array, items: {type: string}, x-kubernetes-list-type: set}
              atomic: {type: object, additionalProperties: {type: integer}, x-kubernetes-map-type: atomic}
              items:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [id]
                items: {type: object, required: [id], properties: {id: {type: string}, v: {type: integer, default: 7}}}
`

// TestTransitions: whatever a chart changes, an upgrade and a rollback plan the fields that then change, and leave the
// objects as Helm does.
func TestTransitions(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Create(strings.Split(customKinds, "---\n")...)
	r.Eventually("the kinds are served", func() bool {
		found := rig.Rig{T: t, Client: rig.Connect(t, r.Namespace)} // a client keeps what it has discovered
		return !slices.ContainsFunc(transitions, func(tr transition) bool { return !isServed(&found, tr) })
	})
	methods := [][2]string{{"false", "true"}, {"true", "false"}, {"false", "false"}, {"true", "true"}}
	if !rig.Long {
		methods = methods[:2]
	}
	for _, method := range methods {
		t.Run(method[0]+"-"+method[1], func(t *testing.T) {
			t.Parallel()
			w := beside{rig.New(t), rig.NewNamed(t, "transitions-helm-"+method[0]+"-"+method[1])}
			w.ours.Meddles = "client-side apply merges ports by their number alone, as in Helm"
			w.ours.Eventually("the kinds are served", func() bool {
				return slices.IndexFunc(transitions, func(tr transition) bool { return !isServed(w.ours, tr) }) < 0
			})
			before, after := documentsOf(transition.old), documentsOf(transition.new)
			w.ours.Deploy("plain", rig.UseChart(rig.ChartOf(t, before), func(i *kube.Deploy) { i.ServerSide = method[0] }))
			w.helms.MustHelm("install", "t", chartDir(t, before), "--server-side="+method[0])
			w.edit()
			force := method[1] == "true"
			op, err := w.ours.Upgrade("plain", rig.UseChart(rig.ChartOf(t, after), func(u *kube.Deploy) { u.ServerSide, u.ForceConflicts = method[1], force }))
			w.step(op, err, "upgrade", "t", chartDir(t, after), "--server-side="+method[1], fmt.Sprint("--force-conflicts=", force))
			force = method[0] == "true"
			op, err = w.ours.Client.PrepareRollback(t.Context(), kube.Rollback{Common: w.ours.Common(), Revision: 1, ForceConflicts: force})
			w.step(op, err, "rollback", "t", "1", fmt.Sprint("--force-conflicts=", force))
		})
	}
}

// beside is a release by lockstep and the same by Helm.
type beside struct{ ours, helms *rig.Rig }

// edit makes the changes by another client.
func (w beside) edit() {
	for _, r := range []*rig.Rig{w.ours, w.helms} {
		for _, tr := range transitions {
			if tr.edit == "" {
				continue
			}
			if _, err := resourceOf(r, tr).Patch(r.T.Context(), tr.name, types.MergePatchType, []byte(tr.edit), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
				r.T.Fatal(err)
			}
		}
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // managers are ordered by the second of their last write
}

// step plans and runs an operation, runs Helm's, and compares the three.
func (w beside) step(op *kube.Operation, err error, helm ...string) {
	t := w.ours.T
	t.Helper()
	before := allOf(w.ours)
	_, changes := w.ours.Changes(op, err)
	w.ours.MustRun(op, nil)
	w.helms.MustHelm(helm...)
	after, twin := allOf(w.ours), allOf(w.helms)
	for _, tr := range transitions {
		id := tr.id()
		var did, differs inspect.Change
		if err := errors.Join(preview.Compare(&did, before[id], after[id]), preview.Compare(&differs, comparable(after[id]), comparable(twin[id]))); err != nil {
			t.Fatal(err)
		}
		c := changes[id]
		if got, want := fieldsOf(did), fieldsOf(c); !slices.Equal(got, want) && !tr.random {
			t.Errorf("%s %s changed by %q, the plan says %s %q %s", helm[0], id, got, c.Action, want, c.Message)
		}
		changed := before[id].GetResourceVersion() != after[id].GetResourceVersion()
		if changed != (c.Action == inspect.Modify) && !strings.HasPrefix(id, "Deployment/") { // its controller writes, too
			t.Errorf("%s %s changed: %t, the plan says %s", helm[0], id, changed, c.Action)
		}
		if differs.Diff != "" && !tr.random {
			t.Errorf("%s %s differs from Helm's:\n%s", helm[0], id, differs.Diff)
		}
	}
}

// documentsOf returns the objects with their fields at one time.
func documentsOf(at func(transition) string) string {
	var out []string
	for _, tr := range transitions {
		out = append(out, rig.Object(tr.kind+"/"+tr.name, nil, at(tr)))
	}
	return strings.Join(out, "\n---\n")
}

// chartDir writes a chart for Helm.
func chartDir(t *testing.T, documents string) string {
	return rig.MakeDir(t, rig.Files{"Chart.yaml": "apiVersion: v2\nname: edge\nversion: 1.0.0\n", "templates/all.yaml": documents})
}

func (tr transition) old() string { return tr.before }
func (tr transition) new() string { return tr.after }

func (tr transition) id() string {
	return tr.kind[strings.LastIndex(tr.kind, "/")+1:] + "/" + tr.name
}

func isServed(r *rig.Rig, tr transition) bool {
	_, err := mappingOf(r, tr)
	return err == nil
}

func mappingOf(r *rig.Rig, tr transition) (*meta.RESTMapping, error) {
	mapper, err := r.Client.Getter.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	i := strings.LastIndex(tr.kind, "/")
	gvk := schema.FromAPIVersionAndKind(tr.kind[:i], tr.kind[i+1:])
	return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

func resourceOf(r *rig.Rig, tr transition) dynamic.ResourceInterface {
	r.T.Helper()
	m, err := mappingOf(r, tr)
	if err != nil {
		r.T.Fatal(err)
	}
	return r.Client.Dynamic.Resource(m.Resource).Namespace(r.Namespace)
}

func allOf(r *rig.Rig) map[string]*unstructured.Unstructured {
	r.T.Helper()
	out := map[string]*unstructured.Unstructured{}
	for _, tr := range transitions {
		u, err := resourceOf(r, tr).Get(r.T.Context(), tr.name, metav1.GetOptions{})
		if err != nil {
			r.T.Fatal(err)
		}
		out[tr.id()] = u
	}
	return out
}

// comparable returns an object without what differs between namespaces.
func comparable(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	for _, path := range [][]string{{"metadata"}, {"status"}, {"spec", "clusterIP"}, {"spec", "clusterIPs"}} {
		unstructured.RemoveNestedField(u.Object, path...)
	}
	return u
}
