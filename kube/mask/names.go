package mask

import (
	"index/suffixarray"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
)

// Names are facts that everybody sees: those of charts, templates, releases, groups, objects and kinds. A secret value
// may be the same word, such as a default password keycloak of the chart keycloak. Text therefore keeps a value wherever
// it is a name, or a part of one, and hides it everywhere else.

// vocabulary are the words of lockstep's, Helm's and Kubernetes' own messages that are long enough to be hidden as a
// value.
var vocabulary = strings.Fields(`annotation annotations approval available backend breakpoint cancelled certificate
	ClusterRole ClusterRoleBinding cluster-admin condition conditions ConfigMap configmap configmaps connection container
	containers context controller CronJob cronjobs CustomResourceDefinition DaemonSet daemonsets database default-token
	degraded dependencies dependency deployed Deployment deployment deployments disabled endpoints existing failed forbidden
	generation helmfile immutable in-progress ingress install installed interrupted invalid kubernetes localhost manifest
	namespace namespaced namespaces NetworkPolicy not-found operation operator parameter pending-install pending-rollback
	pending-upgrade permission permissions persistentvolumeclaim PersistentVolumeClaim PodDisruptionBudget post-install
	post-upgrade pre-install pre-upgrade previous production progress readiness recovery reference ReplicaSet replicas
	repository required resource resources resource-group restarts revision revisions rollback rolled-back RoleBinding running
	scheduled selector sequence service services ServiceAccount serviceaccount StatefulSet statefulset statefulsets
	storageclass StorageClass subchart subcharts superseded template templates terminated terminating timeout undefined
	unchanged uninstall uninstalled uninstalling unreachable unsequenced upgrade validation variable version waiting webhook
	workload`)

// AddNames adds names, which Text never hides, and the parts of those that are paths or IDs, such as shop/db:main.
func (m *Mask) AddNames(names ...string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		m.addName(name)
		for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == ':' }) {
			m.addName(part)
		}
	}
}

// addName adds a name. The caller must hold m.mu.
func (m *Mask) addName(name string) {
	if len(name) < minShort || m.names[name] {
		return
	}
	if m.names == nil {
		m.names = map[string]bool{}
	}
	m.names[name], m.compiled = true, nil
}

// AddPlan adds the names of the groups and objects of a plan.
func (m *Mask) AddPlan(phases []event.Phase) {
	for g := range event.Groups(phases) {
		m.AddNames(g.ID)
	}
	for _, o := range event.Objects(phases) {
		m.AddNames(o.String(), o.Kind, o.Group, o.Name, o.Namespace)
	}
}

// definition matches the name of a template that a chart defines.
var definition = regexp.MustCompile(`{{-?\s*(?:define|block)\s+["` + "`" + `]([^"` + "`" + `]+)["` + "`" + `]`)

// Errors of templates show the names of the templates that they use, which the chart may lack, and fields such as .Values.db.host.
var (
	usedTemplate = regexp.MustCompile(`\b(?:include|template)\s+["` + "`" + `]([^"` + "`" + `]+)["` + "`" + `]`)
	fieldPath    = regexp.MustCompile(`(?:\.[A-Za-z_]\w*){2,}`)
	templateText = regexp.MustCompile(`(?s){{.*?}}`)
)

// AddChartNames adds the names of a chart, of its subcharts, of their templates, and those that these show in errors.
func (m *Mask) AddChartNames(c *chart.Chart) {
	if c == nil {
		return
	}
	if c.Metadata != nil {
		m.AddNames(c.Name(), c.Name()+"-"+c.Metadata.Version, c.ChartFullPath())
		for _, d := range c.Metadata.Dependencies {
			m.AddNames(d.Name, d.Alias)
		}
	}
	for _, t := range c.Templates {
		full := path.Join(c.ChartFullPath(), t.Name)
		if !m.isNew(full, string(t.Data)) {
			continue
		}
		m.AddNames(t.Name, full)
		for _, found := range definition.FindAllSubmatch(t.Data, -1) {
			m.AddNames(string(found[1]))
		}
		for _, text := range templateText.FindAll(t.Data, -1) {
			for _, found := range usedTemplate.FindAllSubmatch(text, -1) {
				m.AddNames(string(found[1]))
			}
			for _, found := range fieldPath.FindAll(text, -1) {
				m.AddNames(string(found))
			}
		}
	}
	for _, sub := range c.Dependencies() {
		m.AddChartNames(sub)
	}
}

// addReleaseNames adds the names of a release, its chart and its hooks.
func (m *Mask) addReleaseNames(rel *release.Release) {
	m.AddNames(rel.Name, rel.Namespace)
	for _, h := range rel.Hooks {
		m.AddNames(h.Name, h.Kind, h.Path)
	}
	m.AddChartNames(rel.Chart)
}

// objectNames returns the names in an object: its own, its kind, those in its fields, and the keys of a Secret, which plans
// show as well.
func objectNames(object map[string]any) (names []string) {
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	names = append(names, kind, name, namespace)
	if !isSecret(object) {
		return append(names, fieldNames(object, "")...)
	}
	for _, field := range []string{"data", "stringData"} {
		keys, _ := object[field].(map[string]any)
		for key := range keys {
			names = append(names, key)
		}
	}
	return names
}

// fieldNames returns the names in a field of an object: of its containers, images, volumes and ports, and of the objects and keys
// that it uses. Messages name them, for example a missing Secret, although the chart may take its name from a value such as
// tls.secret, which is named like a credential.
func fieldNames(value any, field string) (names []string) {
	switch v := value.(type) {
	case map[string]any:
		for k, e := range v {
			if name, isText := e.(string); isText && (k == "name" || k == "image" || isNameField(k) || k == "key" && strings.HasSuffix(field, "KeyRef")) {
				names = append(names, name)
			}
			names = append(names, fieldNames(e, k)...)
		}
	case []any:
		for _, e := range v {
			names = append(names, fieldNames(e, field)...)
		}
	}
	return names
}

// isNameField reports whether a field contains the name of an object, such as claimName.
func isNameField(field string) bool {
	return strings.HasSuffix(field, "Name") || strings.HasSuffix(strings.ToLower(field), "secretname")
}

// compiled is a Mask prepared for texts.
type compiled struct {
	// replace replaces each value by its index between two marks.
	replace *strings.Replacer
	values  []value
	hidden  []string // the values that are hidden everywhere
	names   map[string]bool
}

// value is a form of a secret value. One that names contain, or a short one, which is hidden only as a word, is hidden only in
// some places. core is the value without punctuation at both ends.
type value struct {
	text, core string
	short      bool
	places     []place
}

// place is a place of a value's core in a name.
type place struct {
	name string
	at   int
}

// mark surrounds the index of a value. It is a noncharacter, so it is removed from texts.
const mark = "\U0010FFFF"

// separator does not occur in names.
const separator = "\x00"

// nameIndex finds the names that contain a value. It is a suffix array, because there may be thousands of both.
type nameIndex struct {
	all   string
	array *suffixarray.Index
}

func newNameIndex(names map[string]bool) nameIndex {
	sorted := slices.AppendSeq(slices.Clone(vocabulary), maps.Keys(names))
	slices.Sort(sorted)
	all := separator + strings.Join(slices.Compact(sorted), separator) + separator
	return nameIndex{all, suffixarray.New([]byte(all))}
}

// find returns the places of text in names.
func (x nameIndex) find(text string) (found []place) {
	if text == "" || strings.Contains(text, separator) {
		return nil
	}
	for _, at := range x.array.Lookup([]byte(text), -1) {
		start := strings.LastIndex(x.all[:at], separator) + len(separator)
		end := at + strings.Index(x.all[at:], separator)
		found = append(found, place{x.all[start:end], at - start})
	}
	return found
}

// punctuation reports whether r does not belong to a word.
func punctuation(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// isName reports whether the value in text[start:end] is a name there, or a part of one. In text of a workload, the bare
// value is none.
func (v *value) isName(text string, start, end int, ofWorkload bool) bool {
	core := start + strings.Index(v.text, v.core)
	return slices.ContainsFunc(v.places, func(p place) bool {
		from := core - p.at
		to := from + len(p.name)
		if from < 0 || to > len(text) || text[from:to] != p.name || !isBoundary(text, from, to) {
			return false
		}
		return !ofWorkload || len(p.name) > len(v.core) || isJoined(text, start, end)
	})
}

// isBoundary reports whether text[from:to] is not inside a longer word. The letter of an escape such as \n belongs to none.
func isBoundary(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	escaped := from > 1 && text[from-2] == '\\' && strings.ContainsRune("nrt", before)
	return (from == 0 || escaped || punctuation(before)) && (to == len(text) || punctuation(after))
}

// isJoined reports whether text[from:to] is a part of a longer name, such as a pod's or a path.
func isJoined(text string, from, to int) bool {
	const joints = "-./_"
	joinedBefore := from > 1 && strings.ContainsRune(joints, rune(text[from-1])) && !punctuation(rune(text[from-2]))
	joinedAfter := to+1 < len(text) && strings.ContainsRune(joints, rune(text[to])) && !punctuation(rune(text[to+1]))
	return joinedBefore || joinedAfter
}
