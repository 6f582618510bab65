package preflight

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"lockstep/kube/session"
)

// TestWhyTerminating: all conditions that are true say why a namespace still exists.
func TestWhyTerminating(t *testing.T) {
	const conditions = `{status: {conditions: [
	{type: NamespaceDeletionGroupVersionParsingFailure, status: "True", message: parsing failed},
	{type: NamespaceDeletionContentFailure, status: "False", message: "All content successfully deleted"},
	{type: NamespaceContentRemaining, status: "True", message: "pods. has 1 resource instances"},
	{type: NamespaceFinalizersRemaining, status: "True"}]}}`
	for text, want := range map[string]string{
		conditions: ": parsing failed; pods. has 1 resource instances",
		`{status: {conditions: [
	{type: NamespaceContentRemaining, status: "True", message: "Some resources are remaining: configmaps. has 1 resource instances, gears.example.com has 2 resource instances"},
	{type: NamespaceFinalizersRemaining, status: "True", message: "Some content in the namespace has finalizers remaining: a.b/c in 3 resource instances"}]}}`: ": remaining objects: configmaps (1), gears.example.com (2); remaining finalizers: a.b/c (3)",
		"{}": "",
	} {
		ns := fromYAML[corev1.Namespace](t, text)
		if got := whyTerminating(&ns); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestNamespaceAdvice: for a helmfile, errors about the release's namespace name its key, because up has no flag for it. Neither creates another namespace.
func TestNamespaceAdvice(t *testing.T) {
	ns := fromYAML[corev1.Namespace](t, `{metadata: {name: extra, deletionTimestamp: "2026-01-01T00:00:00Z"}}`)
	for _, tt := range []struct {
		provided            *session.Provided
		missing, terminated string
	}{
		{nil, "create it, or use --create-namespace", "(install --create-namespace does both)"},
		{session.NewProvided(), "create it, or set createNamespace: true in the helmfile", "(createNamespace: true in the helmfile does both)"},
	} {
		common := session.Common{Namespace: "extra", Provided: tt.provided}
		if got := missingNamespaceError(common).Error(); !strings.HasSuffix(got, tt.missing) {
			t.Errorf("missing: got %q, want %q", got, tt.missing)
		}
		if got := terminatingWarning(&ns, common).Message; !strings.HasSuffix(got, tt.terminated) {
			t.Errorf("terminating: got %q, want %q", got, tt.terminated)
		}
		common.Namespace = "another"
		if got := terminatingWarning(&ns, common).Message; !strings.HasSuffix(got, "then create it again") {
			t.Errorf("terminating, not the release's: %q", got)
		}
	}
}

// TestMissingNamespace: the check finds the object that needs a missing namespace too early.
func TestMissingNamespace(t *testing.T) {
	const (
		config     = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: extra, annotations: {helm.sh/resource-group: a}}}\n---\n"
		later      = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: extra, annotations: {helm.sh/resource-group: b, helm.sh/depends-on/resource-groups: '[\"a\"]'}}}\n---\n"
		inA        = "{apiVersion: v1, kind: Namespace, metadata: {name: extra, annotations: {helm.sh/resource-group: a}}}\n---\n"
		inB        = "{apiVersion: v1, kind: Namespace, metadata: {name: extra, annotations: {helm.sh/resource-group: b, helm.sh/depends-on/resource-groups: '[\"a\"]'}}}\n---\n"
		operatorA  = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: operator, annotations: {helm.sh/resource-group: a}}, spec: {template: {spec: {containers: []}}}}\n---\n"
		byOperator = "so an earlier group must create it"
		nobody     = "create the namespace, or add it to the chart"
		tooLate    = "ConfigMap/a is in namespace extra, which is created after it (c:b)"
	)
	for name, tt := range map[string]struct {
		objects             string
		warnings, conflicts []string
	}{
		"with the objects":                  {config + later + inA, nil, nil},
		"after one of them":                 {later + config + inB, []string{tooLate}, nil},
		"by nobody":                         {config + later, nil, []string{nobody}},
		"by an operator before the object":  {operatorA + later, []string{byOperator}, nil},
		"by an operator before one of them": {operatorA + later + config, nil, []string{nobody}},
		"not needed":                        {operatorA, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			planned := parsePlanned(t, tt.objects)
			found := planned.checkMissingNamespace("extra")
			if len(found.conflicts) > 0 {
				found.warnings = nil
			}
			checkWarnings(t, found.warnings, tt.warnings...)
			checkWarnings(t, found.conflicts, tt.conflicts...)
		})
	}
}
