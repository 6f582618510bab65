package permissions

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"lockstep/kube/names"
)

// Roles are the objects that give a ServiceAccount the permissions for releases.
type Roles struct {
	// Account and Namespace are those of the ServiceAccount.
	Account, Namespace string
	// Name distinguishes the roles from those for other releases of the same account.
	Name string
	// InCluster adds the permissions that a run with --in-cluster needs.
	InCluster bool
	// Approvals adds the permissions that a run with --approval-in-cluster needs.
	Approvals bool
	// Journal is the Secret in which runs in the cluster keep their state, in the account's namespace.
	Journal string
	// More are permissions that no release needs.
	More Set

	permissions Set
	grants      []Grant
	namespaces  map[string]*Release // to create; the value is the release whose chart contains the namespace, or nil
}

// Add adds the permissions for a release. If newNamespace is set, the roles include its namespace.
func (r *Roles) Add(release Release, newNamespace bool) {
	if r.permissions == nil {
		r.permissions, r.namespaces = Set{}, map[string]*Release{}
	}
	r.permissions.addAll(release.Permissions())
	if r.Approvals {
		r.permissions.addAll(ForApprovals(release.Namespace))
	}
	if r.InCluster { // the name of the run's Job and Lease is random; the pod runs in the namespace of its account
		r.permissions.Add(Permission{Verb: "get", Resource: schema.GroupResource{Group: "batch", Resource: "jobs"}, Namespace: r.Namespace, Use: JobDeleted})
		r.permissions.addAll(Commands(r.Namespace))
		for _, verb := range []string{"get", "patch"} {
			r.permissions.Add(Permission{Verb: verb, Resource: schema.GroupResource{Resource: "secrets"}, Namespace: r.Namespace, Use: Keep}, r.Journal)
		}
	}
	r.grants = append(r.grants, release.Grants()...)
	if newNamespace && r.namespaces[release.Namespace] == nil {
		r.namespaces[release.Namespace] = nil
	}
	for _, o := range release.Objects {
		if release.ownsNamespace(o) {
			r.namespaces[o.Name] = &release
		}
	}
}

const rolesHeader = `# Exactly the permissions that ServiceAccount %[1]s in namespace %[2]s needs to install, upgrade,
# roll back, test and uninstall %[3]s. Apply this as an administrator.
# The account also needs discovery and self-access reviews, which Kubernetes allows for
# every account (system:discovery, system:basic-user).
# The roles named *:optional can be omitted: each rule says what lockstep does without it.
`

// Write writes the objects as YAML.
func (r Roles) Write(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, rolesHeader, r.Account, r.Namespace, strings.Join(strings.Fields(r.Name), " "))
	if len(content.IsPathSegmentName(r.Name)) > 0 || strings.ContainsFunc(r.Name, unicode.IsControl) { // a stack has the name of any folder
		r.Name = names.Of(r.Name)
	}
	for _, ns := range slices.Sorted(maps.Keys(r.namespaces)) {
		fmt.Fprintf(&out, "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", scalar(ns))
		if by := r.namespaces[ns]; by != nil { // without these labels and annotations its install would refuse the namespace
			fmt.Fprintf(&out, "  labels:\n    app.kubernetes.io/managed-by: Helm\n  annotations:\n    meta.helm.sh/release-name: %s\n"+
				"    meta.helm.sh/release-namespace: %s\n", scalar(by.Name), scalar(by.Namespace))
		}
	}
	fmt.Fprintf(&out, "---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: %s\n  namespace: %s\n", scalar(r.Account), scalar(r.Namespace))
	r.permissions.addAll(r.More)
	needed, optional := makeRules(r.permissions, r.grants)
	r.writeRoles(&out, "", needed)
	r.writeRoles(&out, ":optional", optional)
	_, err := io.WriteString(w, out.String())
	return err
}

// writeRoles writes a role and its binding for each namespace.
func (r Roles) writeRoles(out *strings.Builder, suffix string, rules map[string][]rule) {
	for _, ns := range slices.Sorted(maps.Keys(rules)) {
		kind, name, namespace := "Role", r.Account+":"+r.Name+suffix, "\n  namespace: "+scalar(ns)
		if ns == "" { // names of ClusterRoles must be unique in the cluster
			kind, name, namespace = "ClusterRole", r.Account+":"+r.Namespace+":"+r.Name+suffix, ""
		}
		fmt.Fprintf(out, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: %s%s\nrules:\n", kind, scalar(name), namespace)
		comment := ""
		for _, rule := range rules[ns] {
			if rule.comment != comment {
				comment = rule.comment
				fmt.Fprintf(out, "# %s\n", comment)
			}
			rule.write(out)
		}
		fmt.Fprintf(out, bindingText, kind, scalar(name), namespace, scalar(r.Account), scalar(r.Namespace))
	}
}

const bindingText = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sBinding
metadata:
  name: %[2]s%[3]s
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: %[1]s
  name: %[2]s
subjects:
- kind: ServiceAccount
  name: %[4]s
  namespace: %[5]s
`

// write writes the fields of a rule, with each list on one line.
func (r rule) write(out *strings.Builder) {
	before := "- "
	for _, field := range []struct {
		name string
		list []string
	}{
		{"apiGroups", r.APIGroups},
		{"resources", r.Resources},
		{"resourceNames", r.ResourceNames},
		{"nonResourceURLs", r.NonResourceURLs},
		{"verbs", r.Verbs},
	} {
		if len(field.list) == 0 {
			continue
		}
		var quoted []string
		for _, s := range field.list {
			quoted = append(quoted, strconv.Quote(s))
		}
		fmt.Fprintf(out, "%s%s: [%s]\n", before, field.name, strings.Join(quoted, ", "))
		before = "  "
	}
}

// scalar quotes a name that YAML would not read as a string.
func scalar(name string) string {
	text, _ := yaml.Marshal(name) // never fails for a string
	return strings.TrimSpace(string(text))
}
