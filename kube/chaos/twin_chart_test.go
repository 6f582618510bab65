package chaos

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// dependsOn is the annotation in the spelling that Helm accepts (R3).
const dependsOn = "helm.sh/depends-on-resource-groups"

// twinChart is a version of a chart, as its rendered objects.
type twinChart struct {
	objects []map[string]any
	kinds   []twinKind
	root    twinSubchart // the same in all versions, because only an install applies crds/
	groups  bool         // some objects are in groups
	invalid bool         // the API server refuses its last object
}

// generator creates random charts. It picks from few values, so that versions have much in common.
type generator struct{ *rand.Rand }

// chance returns true in n percent of calls.
func (m generator) chance(n int) bool { return m.IntN(100) < n }

func pick[T any](m generator, of ...T) T { return of[m.IntN(len(of))] }

// pickSome returns a random selection of a list, in random order.
func pickSome[T any](m generator, of ...T) []T {
	of = slices.Clone(of)
	m.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	return of[:m.IntN(len(of)+1)]
}

// pickAtLeast is like pickSome, but returns at least n elements.
func pickAtLeast[T any](m generator, n int, of ...T) []T {
	for {
		if out := pickSome(m, of...); len(out) >= n {
			return out
		}
	}
}

// twinKind is a kind of object; fill creates one.
type twinKind struct {
	kind, version string
	fill          func(m generator, name string) map[string]any
}

// twinKinds are the kinds of objects in charts.
var twinKinds = []twinKind{
	{"ConfigMap", "v1", func(m generator, _ string) map[string]any { return map[string]any{"data": m.data()} }},
	{"Secret", "v1", generator.secret},
	{"Service", "v1", generator.service},
	{"ServiceAccount", "v1", generator.serviceAccount},
	{"Role", "rbac.authorization.k8s.io/v1", generator.role},
	{"NetworkPolicy", "networking.k8s.io/v1", generator.networkPolicy},
	{"Deployment", "apps/v1", generator.deployment},
	{"StatefulSet", "apps/v1", generator.statefulSet},
	{"CronJob", "batch/v1", generator.cronJob},
}

// chart creates the first version. It has few kinds, and often no groups, so that lockstep applies enough objects of a
// kind at once to read them with a list call.
func (m generator) chart() twinChart {
	c := twinChart{kinds: pickAtLeast(m, 1, twinKinds...), groups: m.chance(40), root: twinSubchart{name: "twin"}}
	if m.chance(40) {
		c.root = m.subchart("twin", 2)
	}
	c.kinds = c.kinds[:min(len(c.kinds), 1+m.IntN(3))]
	for range 5 + m.IntN(6) {
		c.add(m, true)
	}
	return c
}

// next creates the version after c.
func (m generator) next(c twinChart) twinChart {
	n := twinChart{kinds: c.kinds, groups: c.groups, root: c.root}
	for _, o := range c.objects {
		if m.chance(12) && !hasFinalizers(o) {
			continue
		}
		n.objects = append(n.objects, m.changed(o, c.groups))
	}
	for range m.IntN(3) {
		n.add(m, false)
	}
	if m.chance(30) {
		m.Shuffle(len(n.objects), func(i, j int) { n.objects[i], n.objects[j] = n.objects[j], n.objects[i] })
	}
	return n
}

// add adds an object, unless there is one of the same kind and name. Only objects that are in all versions (forGood) may
// have finalizers, because nothing removes them.
func (c *twinChart) add(m generator, forGood bool) {
	k := pick(m, c.kinds...)
	name := fmt.Sprintf("%s%d", strings.ToLower(k.kind), m.IntN(7))
	if slices.ContainsFunc(c.objects, func(o map[string]any) bool { return o["kind"] == k.kind && nameOf(o) == name }) {
		return
	}
	o := k.fill(m, name)
	o["apiVersion"], o["kind"], o["metadata"] = k.version, k.kind, m.metadata(name, c.groups)
	if forGood && k.kind == "ConfigMap" && m.chance(50) {
		o["metadata"].(map[string]any)["finalizers"] = list(pickAtLeast(m, 1, "example.com/x", "example.com/y", "example.com/z"))
	}
	c.objects = append(c.objects, o)
}

// changed returns an object in the next version, often unchanged.
func (m generator) changed(o map[string]any, groups bool) map[string]any {
	o = runtime.DeepCopyJSON(o)
	switch metadata := o["metadata"].(map[string]any); m.IntN(8) {
	case 0, 1: // reorder lists
		m.shuffle(o)
	case 2, 3: // new content
		for _, k := range twinKinds {
			if k.kind == o["kind"] {
				filled := k.fill(m, nameOf(o))
				maps.DeleteFunc(o, func(key string, _ any) bool { return key != "apiVersion" && key != "kind" && key != "metadata" })
				maps.Copy(o, filled)
			}
		}
	case 4: // new metadata
		was := metadata["finalizers"]
		o["metadata"] = m.metadata(nameOf(o), groups)
		if was != nil {
			o["metadata"].(map[string]any)["finalizers"] = list(pickAtLeast(m, 1, "example.com/x", "example.com/y", "example.com/z"))
		}
	}
	return o
}

// hasFinalizers reports whether an object has finalizers. It could never be deleted, so it never leaves the chart.
func hasFinalizers(o map[string]any) bool { return o["metadata"].(map[string]any)["finalizers"] != nil }

func nameOf(o map[string]any) string { return o["metadata"].(map[string]any)["name"].(string) }

// shuffle reorders the lists in v.
func (m generator) shuffle(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m.shuffle(v[key])
		}
	case []any:
		if m.chance(70) {
			m.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
		}
		for _, e := range v {
			m.shuffle(e)
		}
	}
}

func list[T any](of []T) []any {
	out := make([]any, len(of))
	for i, v := range of {
		out[i] = v
	}
	return out
}

func (m generator) metadata(name string, groups bool) map[string]any {
	annotations, labels := map[string]any{}, map[string]any{}
	for _, key := range pickSome(m, "example.com/a", "example.com/b") {
		annotations[key] = pick(m, "1", "2")
	}
	for _, key := range pickSome(m, "tier", "team") {
		labels[key] = pick(m, "1", "2")
	}
	if m.chance(10) {
		annotations["helm.sh/resource-policy"] = "keep"
	}
	for _, key := range pickSome(m, "helm.sh/depends-on-subcharts", "helm.sh/install-before", "lockstep/ignore-drift") { // Helm applies what lockstep reads
		annotations[key] = map[string]any{"helm.sh/install-before": "Deployment"}[key]
		if annotations[key] == nil {
			annotations[key] = `["none"]`
		}
	}
	switch group := pick(m, "", "", "a", "b", "c"); {
	case !groups:
	case group == "a":
		annotations["helm.sh/resource-group"] = "a"
	case group == "b":
		annotations["helm.sh/resource-group"], annotations[dependsOn] = "b", `["a"]`
	case group == "c":
		annotations["helm.sh/resource-group"], annotations[dependsOn] = "c", `["b"]`
	}
	out := map[string]any{"name": name}
	if len(annotations) > 0 || m.chance(20) {
		out["annotations"] = annotations
	}
	if len(labels) > 0 {
		out["labels"] = labels
	}
	return out
}

func (m generator) data() map[string]any {
	data := map[string]any{}
	for _, key := range pickSome(m, "k0", "k1", "k2", "k3") {
		data[key] = pick(m, "v0", "v1", "several\nlines\n", "")
	}
	return data
}

func (m generator) secret(string) map[string]any {
	o := map[string]any{"type": "Opaque"}
	encoded := m.data()
	for key, v := range encoded {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(v.(string)))
	}
	if m.chance(70) {
		o["data"] = encoded
	}
	if m.chance(40) {
		o["stringData"] = m.data()
	}
	return o
}

func (m generator) service(string) map[string]any {
	ports := pickAtLeast(m, 1, map[string]any{"name": "http", "port": int64(80)}, map[string]any{"name": "alt", "port": int64(81), "targetPort": pick[any](m, int64(8080), "http")},
		map[string]any{"name": "dns", "port": int64(53), "protocol": "UDP"}, map[string]any{"name": "dns-tcp", "port": int64(53), "protocol": "TCP"})
	spec := map[string]any{"ports": list(ports)}
	if m.chance(60) {
		spec["selector"] = map[string]any{"app": pick(m, "x", "y")}
	}
	return map[string]any{"spec": spec}
}

func (m generator) serviceAccount(string) map[string]any {
	o := map[string]any{}
	if m.chance(50) {
		o["automountServiceAccountToken"] = m.chance(50)
	}
	if m.chance(60) {
		o["imagePullSecrets"] = list(pickSome(m, map[string]any{"name": "p"}, map[string]any{"name": "q"}, map[string]any{"name": "r"}))
	}
	return o
}

func (m generator) role(string) map[string]any {
	rules := pickSome(m, map[string]any{"apiGroups": list([]string{""}), "resources": list(pickAtLeast(m, 1, "pods", "configmaps")), "verbs": list(pickAtLeast(m, 1, "get", "list", "watch"))},
		map[string]any{"apiGroups": list([]string{"apps"}), "resources": list([]string{"deployments"}), "verbs": list([]string{"get"})})
	return map[string]any{"rules": list(rules)}
}

func (m generator) networkPolicy(string) map[string]any {
	ports := pickSome(m, map[string]any{"port": int64(80), "protocol": "TCP"}, map[string]any{"port": int64(53), "protocol": "UDP"})
	return map[string]any{"spec": map[string]any{
		"podSelector": map[string]any{"matchLabels": map[string]any{"app": pick(m, "x", "y")}},
		"policyTypes": list(pickAtLeast(m, 1, "Ingress", "Egress")),
		"ingress":     []any{map[string]any{"ports": list(ports)}},
	}}
}

// pod returns the spec of pods.
func (m generator) pod(restart string) map[string]any {
	var containers, inits []any
	for _, name := range pickAtLeast(m, 1, "main", "side") {
		containers = append(containers, m.container(name))
	}
	for _, name := range pickSome(m, "one", "two", "three") {
		inits = append(inits, map[string]any{"name": name, "image": pick(m, "i:1", "i:2")})
	}
	spec := map[string]any{"containers": containers, "terminationGracePeriodSeconds": int64(0),
		"volumes": []any{map[string]any{"name": "one", "emptyDir": map[string]any{}}, map[string]any{"name": "two", "emptyDir": map[string]any{}}}}
	if len(inits) > 0 {
		spec["initContainers"] = inits
	}
	if restart != "" {
		spec["restartPolicy"] = restart
	}
	if m.chance(30) {
		spec["tolerations"] = list(pickSome(m, map[string]any{"key": "a", "operator": "Exists"}, map[string]any{"key": "b", "operator": "Exists"}))
	}
	return spec
}

func (m generator) container(name string) map[string]any {
	c := map[string]any{"name": name, "image": pick(m, "x:1", "x:2")}
	var env, mounts []any
	for _, name := range pickSome(m, "A", "B", "C") {
		env = append(env, map[string]any{"name": name, "value": pick(m, "1", "$(A)")})
	}
	for _, name := range pickSome(m, "one", "two") {
		mounts = append(mounts, map[string]any{"name": name, "mountPath": "/" + name})
	}
	if len(env) > 0 {
		c["env"] = env
	}
	if len(mounts) > 0 {
		c["volumeMounts"] = mounts
	}
	if m.chance(50) {
		c["args"] = list(pickSome(m, "-a", "-b", "-c"))
	}
	if m.chance(50) {
		c["ports"] = list(pickSome(m, map[string]any{"containerPort": int64(80)}, map[string]any{"containerPort": int64(53), "protocol": "UDP"}, map[string]any{"containerPort": int64(53), "protocol": "TCP"}))
	}
	if m.chance(40) {
		c["resources"] = map[string]any{"requests": map[string]any{"cpu": pick(m, "1m", "0.002", "2m"), "memory": pick(m, "1Mi", "1048576")}}
	}
	return c
}

func (m generator) workload(name string) map[string]any {
	app := map[string]any{"app": name}
	spec := map[string]any{"selector": map[string]any{"matchLabels": app},
		"template": map[string]any{"metadata": map[string]any{"labels": maps.Clone(app)}, "spec": m.pod("")}}
	if m.chance(80) {
		spec["replicas"] = int64(m.IntN(3) / 2)
	}
	return spec
}

func (m generator) deployment(name string) map[string]any {
	return map[string]any{"spec": m.workload(name)}
}

func (m generator) statefulSet(name string) map[string]any {
	spec := m.workload(name)
	spec["serviceName"] = "none"
	return map[string]any{"spec": spec}
}

func (m generator) cronJob(string) map[string]any {
	return map[string]any{"spec": map[string]any{"suspend": true, "schedule": pick(m, "* * * * *", "0 1 * * *"),
		"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": m.pod("Never")}}}}}
}

// withInvalidObject returns the chart with an additional, invalid object, which Helm and lockstep both apply last.
func (c twinChart) withInvalidObject() twinChart {
	c.invalid = true
	bad := map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": map[string]any{"name": "bad"}, "spec": map[string]any{}}
	c.objects = append(slices.Clone(c.objects), bad)
	return c
}

// write writes the chart to a folder. Its CRDs belong to a namespace.
func (c twinChart) write(dir, namespace string) error {
	var docs []string
	for _, o := range c.objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		docs = append(docs, string(text))
	}
	files, err := c.root.files("", namespace)
	if err != nil {
		return err
	}
	files["templates/all.yaml"] = strings.Join(docs, "---\n")
	return writeFiles(dir, files)
}
