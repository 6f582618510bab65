package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// manyFlags is the number of flags from which help groups them by subject.
const manyFlags = 30

// flagGroup is a section of the flags in the full help.
type flagGroup struct{ title, names string }

// flagGroups are the sections in their order. Flags that are in none come first.
var flagGroups = []flagGroup{
	{"Chart and values", "file environment selector lenient version repo devel verify keyring dependency-update skip-deps " +
		"values set set-string set-file set-json set-literal reuse-values reset-values reset-then-reuse-values values-from-revision " +
		"state-values-file state-values-set skip-schema-validation post-renderer post-renderer-args enable-dns " +
		"api-versions kube-version is-upgrade show-only include-crds skip-tests release-name"},
	{"What is deployed", "install generate-name name-template replace create-namespace crds skip-crds upgrade-crds delete-crds " +
		"no-hooks allow-hooks skip-hooks test labels description history-max stack prune prune-namespace keep-history cascade " +
		"ignore-not-found take-ownership force-conflicts force-replace server-side disable-openapi-validation"},
	{"Before the first write", "dry-run plan out strict skip-preflight check-images"},
	{"Order and pauses", "order concurrency step break-on approve approve-before approval-timeout approval-in-cluster"},
	{"Waiting", "timeout readiness-timeout readiness readiness-file wait-for no-wait-for settle first-status-timeout " +
		"wait wait-all wait-for-jobs"},
	{"Failures and interruptions", "rollback-on-failure hold-on-failure past-no-return keep-broken-pods cleanup-on-fail " +
		"on-interrupt on-hangup"},
	{"Output", "no-tui tui output output-dir detailed-exitcode report notify notify-key-file hide-notes render-subchart-notes " +
		"hide-secret show-secrets logs color debug help"},
	{"Cluster", "namespace kube-context kubeconfig sandbox in-cluster image service-account keep-for"},
	{"Chart repositories and registries", "registry-config repository-config username password pass-credentials ca-file cert-file " +
		"key-file insecure-skip-tls-verify plain-http"},
}

// globalFlags are the flags that most commands have, without --namespace.
const globalFlags = "color debug kube-context kubeconfig registry-config repository-config"

// flagSection is a title and its flags.
type flagSection struct {
	title string
	flags []*pflag.Flag
}

// groupFlags returns flags by subject. If there are few, only the global ones are apart.
func groupFlags(flags []*pflag.Flag) []flagSection {
	groups := flagGroups
	if len(flags) < manyFlags {
		groups = []flagGroup{{"Global flags", globalFlags}}
	}
	rest := slices.Clone(flags)
	var sections []flagSection
	for _, g := range groups {
		s := flagSection{title: g.title}
		for name := range strings.FieldsSeq(g.names) {
			if i := slices.IndexFunc(rest, func(f *pflag.Flag) bool { return f.Name == name }); i >= 0 {
				s.flags = append(s.flags, rest[i])
				rest = slices.Delete(rest, i, i+1)
			}
		}
		if len(s.flags) > 0 {
			sections = append(sections, s)
		}
	}
	if len(rest) > 0 {
		sections = append([]flagSection{{"Flags", rest}}, sections...)
	}
	return sections
}
