package stack

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/cli"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmfile"
	"lockstep/kube/journal"
	"lockstep/kube/lease"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childStackVar); text != "" {
		os.Exit(runChildStack(text))
	}
	rig.Main(m)
}

// release is a release of a stack. Dir is its chart.
type release struct {
	Name, Dir, Context string
	Approve            string
	Test               bool
	Needs              []string
	Removed            bool
	Values             map[string]any
}

// layout says where the releases of a test are. The zero value is one namespace of the current context.
type layout struct {
	Home string // the namespace
	// OtherName, if set, is a second name for the same cluster. OtherNamespace, if set, is a second namespace. Some releases
	// are there.
	OtherName, OtherNamespace string
}

// moves reports whether a release is in the second place: one that others need and, if possible, that needs others.
func (l layout) moves(name string) bool { return name == "b" || name == "old" || name == "crds" }

func (l layout) contextOf(name string) string {
	if l.moves(name) {
		return l.OtherName
	}
	return ""
}

func (l layout) namespaceOf(name string) string {
	if l.moves(name) && l.OtherNamespace != "" {
		return l.OtherNamespace
	}
	return l.Home
}

// id returns the ID of a release.
func (l layout) id(name string) string {
	return helmfile.Release{Name: name, Namespace: l.namespaceOf(name), Context: l.contextOf(name)}.ID()
}

// helmfile returns a helmfile with releases.
func (l layout) helmfile(releases ...release) *helmfile.File {
	f := &helmfile.File{Path: "test"}
	for n, r := range releases {
		rel := helmfile.Release{Name: r.Name, Namespace: l.namespaceOf(r.Name), Context: cmp.Or(r.Context, l.contextOf(r.Name)), Chart: r.Dir, Installed: !r.Removed, CreateNamespace: true, HistoryMax: 10, Approve: r.Approve, Test: r.Test, At: fmt.Sprintf("helmfile.yaml:%d", n+1)}
		for _, need := range r.Needs {
			id := need
			if !strings.Contains(need, "/") {
				id = l.id(need)
			}
			rel.Needs = append(rel.Needs, id)
		}
		f.Releases = append(f.Releases, rel)
	}
	return f
}

// helmfileOf returns a helmfile with releases in one namespace.
func helmfileOf(namespace string, releases ...release) *helmfile.File {
	return layout{Home: namespace}.helmfile(releases...)
}

// render loads a release's chart with its values.
func render(releases []release) func(context.Context, helmfile.Release) (kube.ChartOptions, error) {
	return func(_ context.Context, rel helmfile.Release) (kube.ChartOptions, error) {
		c, err := charts.LoadPath(rel.Chart)
		if err != nil {
			return kube.ChartOptions{}, err
		}
		i := slices.IndexFunc(releases, func(r release) bool { return r.Name == rel.Name && (r.Context == "" || r.Context == rel.Context) })
		return kube.ChartOptions{Chart: c, Values: releases[i].Values}, nil
	}
}

// stackRig is a rig that prepares stacks.
type stackRig struct {
	*rig.Rig
	layout
	connect func(context string) (*kube.Client, error)
}

func newStackRig(t *testing.T) stackRig {
	r := rig.New(t)
	return stackRig{r, layout{Home: r.Namespace}, func(string) (*kube.Client, error) { return rig.Connect(t, r.Namespace), nil }}
}

// newLayoutRig is like newStackRig, but with one of three layouts: one place, a second name for the same cluster, a second
// namespace. Where a release is, and what its cluster is called, changes nothing (S10). The name of the test chooses the
// layout, so that each has its share of the tests; each repetition (-count, as in make chaos) takes the next one.
func newLayoutRig(t *testing.T) stackRig {
	b := newStackRig(t)
	layoutUses.Lock()
	defer layoutUses.Unlock()
	n := crc32.ChecksumIEEE([]byte(t.Name())) + layoutUses.of[t.Name()]
	layoutUses.of[t.Name()]++
	switch n % 3 {
	case 1:
		b.OtherName = "again"
	case 2:
		b.OtherNamespace = b.Namespace + "-extra"
	}
	t.Logf("second name %q, second namespace %q", b.OtherName, b.OtherNamespace)
	return b
}

var layoutUses = struct {
	sync.Mutex
	of map[string]uint32 // how often a test was run, by name
}{of: map[string]uint32{}}

// in returns a rig for the namespace of a release.
func (b stackRig) in(name string) *rig.Rig {
	r := *b.Rig
	r.Namespace = b.namespaceOf(name)
	return &r
}

// objects lists the objects in the namespaces of the test.
func (b stackRig) objects() []string {
	all := b.Objects()
	if b.OtherNamespace != "" {
		all = append(all, b.in("b").Objects()...)
	}
	return all
}

func (b stackRig) prepare(down bool, change func(*kube.StackOptions), releases ...release) (*kube.Stack, error) {
	o := kube.StackOptions{
		File: b.helmfile(releases...), Down: down, Load: render(releases),
		Common: kube.Common{Timeout: time.Minute, ReadinessTimeout: 20 * time.Second, Lease: lease.Options{LockDir: rig.LockDir()}},
	}
	if change != nil {
		change(&o)
	}
	return kube.PrepareStack(b.T.Context(), o, b.connect)
}

// run runs a prepared stack and checks that its exit code matches its error and the releases. It calls on, which may be
// nil, for every event.
func (b stackRig) run(s *kube.Stack, err error, on func(event.Event)) (*event.State, []event.Event) {
	b.T.Helper()
	if err != nil {
		b.T.Fatal(err)
	}
	over := make(chan error, 1)
	reader := s.Feed().Reader()
	go func() { over <- s.Run() }()
	var state event.State
	var all []event.Event
	for e := range reader.All(context.Background()) {
		state.Apply(e)
		all = append(all, e)
		if on != nil {
			on(e)
		}
	}
	if err := <-over; (err == nil) != (state.Exit == 0) {
		b.T.Errorf("exit %d with error %v", state.Exit, err)
	}
	// The records do not show that somebody else changed an unchanged release, or that it is not ready.
	looked := slices.ContainsFunc(state.Results, func(r event.ReleaseResult) bool {
		return r.Result == event.ChangedByOthers || r.Result == event.NotReady
	})
	if missed := b.notAsPlanned(s); (len(missed) == 0) != (state.Exit == 0) && !(looked && state.Exit != 0) {
		b.T.Errorf("exit %d, but these releases are not as planned: %v", state.Exit, missed)
	}
	for _, r := range s.Releases() {
		if state.Exit == 0 && b.Meddles == "" && !r.Remove {
			parts := strings.Split(r.ID, "/") // an unchanged release has no state: all of it must be ready (S4)
			b.AssertAsRecorded(parts[len(parts)-2], parts[len(parts)-1], state.Scopes[r.ID])
		}
	}
	return &state, all
}

// notAsPlanned returns the releases that are not deployed with the planned revision, or not removed as planned. It ignores
// other clusters.
func (b stackRig) notAsPlanned(s *kube.Stack) (ids []string) {
	b.T.Helper()
	secrets := b.Client.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	records, err := secrets.List(context.Background(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		b.T.Fatal(err)
	}
	deployed, exists := map[string]int{}, map[string]bool{}
	for _, r := range records.Items {
		id := r.Namespace + "/" + r.Labels["name"]
		exists[id] = true
		if r.Labels["status"] == "deployed" {
			if deployed[id], err = strconv.Atoi(r.Labels["version"]); err != nil {
				b.T.Fatal(err)
			}
		}
	}
	for _, r := range s.Releases() {
		revision := 0
		if r.Operation != nil {
			revision = r.Operation.Info().Revision
		}
		id := strings.TrimPrefix(r.ID, "again/")
		switch {
		case strings.Count(id, "/") > 1: // another cluster
		case r.Remove && exists[id],
			!r.Remove && r.Unchanged && deployed[id] == 0,
			!r.Remove && !r.Unchanged && deployed[id] != revision:
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// mustUp runs a stack that must succeed.
func (b stackRig) mustUp(releases ...release) *event.State {
	b.T.Helper()
	s, err := b.prepare(false, nil, releases...)
	state, _ := b.run(s, err, nil)
	if state.Exit != 0 {
		b.T.Fatalf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
	return state
}

// chart writes a chart with a ConfigMap and a Deployment that waits for it.
func chart(t *testing.T, name string) string {
	return rig.MakeDir(t, rig.Files{
		"Chart.yaml":            "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n",
		"values.yaml":           "data: one\nimage: example/app:1.0\n",
		"templates/config.yaml": rig.ConfigMap(name, rig.Group("config"), "v: {{ .Values.data }}"),
		"templates/app.yaml": strings.NewReplacer("example/app:1.0", "{{ .Values.image }}", "  annotations:\n    ", "  annotations:\n    {{ with .Values.timeout }}"+plan.AnnotationReadinessTimeout+": {{ . }}{{ end }}\n    ").
			Replace(rig.Deployment(name, rig.Group("app", "config"), "0s")),
	})
}

// unpullable returns values of chart with which only its Deployment fails, and soon: the other objects, and the rollback, have as much
// time as they need on a busy machine.
func unpullable(more map[string]any) map[string]any {
	return rig.MergeValues(map[string]any{"image": "example/no-such-image:1", "timeout": "4s"}, more)
}

// history returns "NAME REVISION STATUS" of the last revision of each release, in order, and "NAME none" if there is none.
func (b stackRig) history(names ...string) (out []string) {
	b.T.Helper()
	for _, name := range names {
		out = append(out, name+" "+b.in(name).Last(name))
	}
	return out
}

// firstWrites returns the ConfigMaps, named after their releases, in the order of their first writes since a time.
func (b stackRig) firstWrites(since time.Time, verbs ...string) (order []string) {
	for _, e := range b.Audit() {
		if e.Received.After(since) && e.Object.Namespace == b.namespaceOf(e.Object.Name) && e.Object.Resource == "configmaps" && e.Object.Name != "kube-root-ca.crt" && slices.Contains(verbs, e.Verb) && !slices.Contains(order, e.Object.Name) {
			order = append(order, e.Object.Name)
		}
	}
	return order
}

// childStack is a stack that a child process runs, so that it can be killed. It is passed in the environment.
type childStack struct {
	layout
	Kubeconfig, Locks       string
	Server, User            string // instead of those of the kubeconfig, if set
	Down, RollbackOnFailure bool
	Lease                   time.Duration // of its Leases, 0 for the default
	Journal                 string        // a file with the journal of its Job, "" for none
	KillAt                  instant       // when the process kills itself, "" for never
	Releases                []release
	File                    string // a helmfile with hooks instead of one of Releases, "" for none
}

const childStackVar = "LOCKSTEP_STACK_ERRAND"

// runChildStack runs a stack and prints its events.
func runChildStack(text string) int {
	var e childStack
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	options := kube.StackOptions{
		File: e.helmfile(e.Releases...), Down: e.Down, Load: render(e.Releases),
		Common: kube.Common{Timeout: time.Minute, RollbackOnFailure: e.RollbackOnFailure, Lease: lease.Options{LockDir: e.Locks, Duration: e.Lease}},
	}
	if e.File != "" {
		file, err := helmfile.Read(context.Background(), helmfile.Options{Path: e.File})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		options.File, options.Hooks, options.Earlier = file, kube.AllowHooks, func(string) *event.State { return nil }
	}
	if e.Journal != "" {
		j, err := journal.Open(context.Background(), &fileStore{path: e.Journal, killAt: e.KillAt}, rand.Text())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		options.Journal, options.Common.Job = j, e.Home+"/job"
	}
	s, err := kube.PrepareStack(context.Background(), options, func(string) (*kube.Client, error) {
		s := cli.New()
		s.KubeConfig, s.KubeAPIServer, s.KubeAsUser = e.Kubeconfig, e.Server, e.User
		s.SetNamespace(e.Home)
		return kube.Connect(s, nil, nil)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	reader := s.Feed().Reader()
	go func() { _ = s.Run() }() // the last event has the result
	out := json.NewEncoder(os.Stdout)
	for e := range reader.All(context.Background()) {
		if err := out.Encode(e); err != nil {
			return 2
		}
	}
	return 0
}
