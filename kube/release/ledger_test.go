package release

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"lockstep/kube/lease"
)

// secretStore stores Secrets like an API server.
type secretStore struct {
	typedcorev1.SecretInterface // nil, for unused methods

	all     map[string]*corev1.Secret
	version int
	fault   fault // of the next write
}

type fault int

const (
	none       fault = iota
	refused          // a 500: nothing was written
	answerLost       // written, but the answer is lost
)

var (
	secretKind = schema.GroupResource{Resource: "secrets"}
	errLost    = errors.New("connection reset")
)

func newSecretStore() *secretStore { return &secretStore{all: map[string]*corev1.Secret{}} }

func (s *secretStore) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Secret, error) {
	if o := s.all[name]; o != nil {
		return o.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(secretKind, name)
}

func (s *secretStore) List(_ context.Context, opts metav1.ListOptions) (*corev1.SecretList, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, err
	}
	list := &corev1.SecretList{}
	for _, o := range s.all {
		if selector.Matches(labels.Set(o.Labels)) {
			list.Items = append(list.Items, *o.DeepCopy())
		}
	}
	return list, nil
}

// write calls do with the current fault.
func (s *secretStore) write(do func() (*corev1.Secret, error)) (*corev1.Secret, error) {
	f := s.fault
	s.fault = none
	if f == refused {
		return nil, apierrors.NewInternalError(errLost)
	}
	o, err := do()
	if f == answerLost && err == nil {
		return nil, errLost
	}
	return o.DeepCopy(), err
}

func (s *secretStore) put(o *corev1.Secret) (*corev1.Secret, error) {
	s.version++
	o = o.DeepCopy()
	o.ResourceVersion = strconv.Itoa(s.version)
	if o.UID == "" {
		o.UID = types.UID("uid-" + o.ResourceVersion)
	}
	s.all[o.Name] = o
	return o, nil
}

func (s *secretStore) Create(_ context.Context, o *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	return s.write(func() (*corev1.Secret, error) {
		if s.all[o.Name] != nil {
			return nil, apierrors.NewAlreadyExists(secretKind, o.Name)
		}
		return s.put(o)
	})
}

func (s *secretStore) Update(_ context.Context, o *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	return s.write(func() (*corev1.Secret, error) {
		stored := s.all[o.Name]
		switch {
		case stored == nil:
			return nil, apierrors.NewNotFound(secretKind, o.Name)
		case o.ResourceVersion != "" && o.ResourceVersion != stored.ResourceVersion, o.UID != "" && o.UID != stored.UID:
			return nil, apierrors.NewConflict(secretKind, o.Name, errors.New("changed"))
		}
		o.UID = stored.UID
		return s.put(o)
	})
}

func (s *secretStore) Delete(_ context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := s.write(func() (*corev1.Secret, error) {
		stored, p := s.all[name], opts.Preconditions
		switch {
		case stored == nil:
			return nil, apierrors.NewNotFound(secretKind, name)
		case p != nil && (*p.ResourceVersion != stored.ResourceVersion || *p.UID != stored.UID):
			return nil, apierrors.NewConflict(secretKind, name, errors.New("changed"))
		}
		delete(s.all, name)
		return nil, nil
	})
	return err
}

// record returns a revision of release r.
func record(n int, status rcommon.Status) *rel1.Release {
	return &rel1.Release{Name: "r", Namespace: "ns", Version: n, Info: &rel1.Info{Status: status}, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "c"}}}
}

func keyOf(n int) string { return fmt.Sprintf("sh.helm.release.v1.r.v%d", n) }

// statuses returns the status and UID of each record by name.
func (s *secretStore) statuses() map[string]string {
	out := map[string]string{}
	for name, o := range s.all {
		out[name] = o.Labels["status"] + " " + string(o.UID)
	}
	return out
}

// TestForeignRecordsStay has a run and somebody else write the records of a release in random order,
// with lost answers and failed requests. The run must never overwrite what somebody else wrote, or
// mark a deployed revision failed, and must stop only if somebody else changed a record (R51a, R34).
func TestForeignRecordsStay(t *testing.T) {
	stopped, completed := 0, 0
	for seed := range uint64(80) {
		w := newRecordsTest(rand.New(rand.NewPCG(seed, 7)))
		for range 30 {
			w.step()
		}
		if len(w.wrong) > 0 {
			t.Fatalf("seed %d:\n%s\n%s", seed, strings.Join(w.story, "\n"), strings.Join(w.wrong, "\n"))
		}
		if w.stopped {
			stopped++
		} else {
			completed++
		}
	}
	if stopped == 0 || completed == 0 {
		t.Errorf("%d runs were stopped, %d were not", stopped, completed)
	}
}

type recordsTest struct {
	*rand.Rand
	store       *secretStore
	ours, other driver.Driver
	ledger      *Ledger
	latest      int               // the latest revision that the run created
	foreign     map[string]string // the last foreign writes, by name
	noForeign   bool              // no foreign writes
	changed     bool              // somebody else has changed a record
	stopped     bool
	story       []string
	wrong       []string
}

func newRecordsTest(r *rand.Rand) *recordsTest {
	w := &recordsTest{Rand: r, store: newSecretStore(), latest: 2, foreign: map[string]string{}, noForeign: r.IntN(2) == 0}
	ledger := NewLedger("ns", "r")
	w.ledger = ledger
	ledger.OnLost(func(error) { w.stopped = true })
	w.ours, w.other = driver.NewSecrets(newSecrets(w.store, ledger, func(string) {})), driver.NewSecrets(w.store)
	_ = w.other.Create(keyOf(1), record(1, rcommon.StatusDeployed))
	_, _ = storage.Init(w.ours).History("r")
	ledger.Seal(time.Time{})
	_ = w.ours.Create(keyOf(2), record(2, rcommon.StatusPendingUpgrade))
	return w
}

func (w *recordsTest) say(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

// The statuses that the run and somebody else write. They differ, so that overwriting is visible.
var (
	ourStatuses   = []rcommon.Status{rcommon.StatusDeployed, rcommon.StatusFailed, rcommon.StatusSuperseded, rcommon.StatusUninstalling, rcommon.StatusPendingRollback}
	otherStatuses = []rcommon.Status{rcommon.StatusUninstalled, rcommon.StatusPendingInstall, rcommon.StatusUnknown}
)

func (w *recordsTest) step() {
	if w.IntN(4) == 0 {
		w.somebody()
		return
	}
	before, changed := w.store.statuses(), w.changed
	w.store.fault = fault(w.IntN(3))
	err := w.write()
	w.store.fault = none
	if w.wrong = w.check(before); errors.Is(err, errDeployed) || err == nil {
		return
	}
	if found := (*lease.LostError)(nil); errors.As(err, &found) && !changed {
		w.wrong = append(w.wrong, "stopped although nobody else changed a record: "+err.Error())
	}
}

// write makes a random write or read as the run, through Helm's driver.
func (w *recordsTest) write() (err error) {
	n, status := 1+w.IntN(w.latest), ourStatuses[w.IntN(len(ourStatuses))]
	switch w.IntN(5) {
	case 0:
		next := w.latest + 1
		if err = w.ours.Create(keyOf(next), record(next, rcommon.StatusPendingRollback)); err == nil {
			w.latest = next
		}
		w.say("run: create %d: %v", next, err)
	case 1:
		_, err = w.ours.Delete(keyOf(1))
		w.say("run: delete 1: %v", err)
	case 2:
		if w.IntN(2) == 0 {
			w.ledger.ReadOnce()
		}
		_, err = storage.Init(w.ours).History("r")
		w.say("run: read: %v", err)
	default:
		err = w.ours.Update(keyOf(n), record(n, status))
		w.say("run: %d %s: %v", n, status, err)
	}
	return err
}

// somebody makes a random change to a record.
func (w *recordsTest) somebody() {
	n := 1 + w.IntN(w.latest+1)
	o := w.store.all[keyOf(n)]
	switch do := w.IntN(4); {
	case do == 0 && o != nil: // as kubectl label does
		o = o.DeepCopy()
		o.Labels["team"] = strconv.Itoa(w.IntN(100))
		_, _ = w.store.put(o)
		w.say("somebody labels %d", n)
		return
	case w.noForeign:
		return
	case do == 1 && o != nil:
		delete(w.store.all, o.Name)
		_ = w.other.Create(o.Name, record(n, rcommon.Status(o.Labels["status"])))
		w.say("somebody recreates %d", n)
	case o == nil && n > w.latest:
		_ = w.other.Create(keyOf(n), record(n, rcommon.StatusDeployed))
		w.say("somebody creates %d", n)
	case o != nil:
		_ = w.other.Update(keyOf(n), record(n, otherStatuses[w.IntN(len(otherStatuses))]))
		w.say("somebody marks %d %s", n, w.store.all[keyOf(n)].Labels["status"])
	}
	w.changed = true
	w.foreign[keyOf(n)] = w.store.statuses()[keyOf(n)]
}

// check returns the errors of the run's last step.
func (w *recordsTest) check(before map[string]string) (wrong []string) {
	after := w.store.statuses()
	for name, was := range before {
		is := after[name]
		if is == was {
			continue
		}
		if w.foreign[name] == was {
			wrong = append(wrong, fmt.Sprintf("%s: the foreign write %q became %q", name, was, is))
		}
		if strings.HasPrefix(was, "deployed ") && strings.HasPrefix(is, "failed ") {
			wrong = append(wrong, fmt.Sprintf("%s was deployed and is marked failed", name))
		}
	}
	return wrong
}

// versionless is a storage without resource versions, such as an SQL database.
type versionless struct {
	driver.Driver // nil, for unused methods

	all map[string]rcommon.Status
}

func (v versionless) Get(key string) (release.Releaser, error) {
	status, ok := v.all[key]
	if !ok {
		return nil, driver.ErrReleaseNotFound
	}
	n, err := strconv.Atoi(key[strings.LastIndex(key, "v")+1:])
	return record(n, status), err
}

func (v versionless) Query(map[string]string) ([]release.Releaser, error) {
	return nil, driver.ErrReleaseNotFound
}

func (v versionless) Create(key string, r release.Releaser) error {
	if _, ok := v.all[key]; ok {
		return driver.ErrReleaseExists
	}
	return v.Update(key, r)
}

func (v versionless) Update(key string, r release.Releaser) error {
	v.all[key] = r.(*rel1.Release).Info.Status
	return nil
}

// TestStorageWithoutVersions: in a storage without versions, a record is read before each
// write (R51a).
func TestStorageWithoutVersions(t *testing.T) {
	v := versionless{all: map[string]rcommon.Status{}}
	d := NewLedger("ns", "r").Driver(v, nil, "ns")
	if err := d.Create(keyOf(1), record(1, rcommon.StatusPendingInstall)); err != nil {
		t.Fatal(err)
	}
	if err := d.Update(keyOf(1), record(1, rcommon.StatusDeployed)); err != nil {
		t.Fatal(err)
	}
	if err := d.Update(keyOf(1), record(1, rcommon.StatusFailed)); !errors.Is(err, errDeployed) {
		t.Errorf("marking a deployed revision as failed: error %v, want %v", err, errDeployed)
	}
	v.all[keyOf(1)] = rcommon.StatusUninstalling // by somebody else
	if err := d.Update(keyOf(1), record(1, rcommon.StatusSuperseded)); !errors.As(err, new(*lease.LostError)) || v.all[keyOf(1)] != rcommon.StatusUninstalling {
		t.Errorf("overwriting a status that somebody else wrote: error %v, and it is now %s", err, v.all[keyOf(1)])
	}
}

// TestAgeOfTheLastLook: a write needs a look that began at most a second ago, whatever the run did since (R51b).
func TestAgeOfTheLastLook(t *testing.T) {
	now, looks, took := time.Now(), 0, time.Duration(0)
	all := Snapshots{{revision: 1, status: rcommon.StatusDeployed, uid: "1", version: "1"}}
	list := func(context.Context) (Snapshots, error) {
		looks++
		now = now.Add(took)
		return slices.Clone(all), nil
	}
	l := NewLedger("ns", "r")
	l.last.now = func() time.Time { return now }
	began := now
	if _ = l.Look(t.Context(), list); looks != 1 {
		t.Fatalf("%d looks", looks)
	}
	l.Seal(began)
	wait := func(d time.Duration) func() { return func() { now = now.Add(d) } }
	for _, step := range []struct {
		what    string
		do      func()
		current bool // without a look
		looks   int
	}{
		{"at once", wait(0), true, 0},
		{"soon", wait(maxLookAge), true, 0},
		{"a wait that no event shows, such as for an object to be gone", wait(time.Millisecond), false, 1},
		{"right after a look", wait(maxLookAge / 2), true, 0},
		{"a short wait of which the ledger is told", l.Waited, false, 1},
		{"another one at once", l.Waited, true, 0},
		{"which is not forgotten", wait(freshLook + 1), false, 1},
		{"it was looked at", wait(freshLook + 1), true, 0},
		{"a wall clock that was set back", func() { now = now.Round(0).Add(-time.Hour) }, true, 0},
		{"a suspended machine, by the wall clock", wait(2 * time.Hour), false, 1},
		{"a server that answers slowly", func() { now, took = now.Add(2*maxLookAge), 3*maxLookAge }, false, 2},
		{"the write that it answered for", wait(0), true, 1},
	} {
		step.do()
		looks = 0
		if err := l.Current(); (err == nil) != step.current || looks > 0 {
			t.Errorf("%s: error %v after %d looks", step.what, err, looks)
		}
		if err := l.Admit(t.Context(), list); err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
		if step.what == "the write that it answered for" {
			continue
		}
		if looks != step.looks {
			t.Errorf("%s: %d looks, want %d", step.what, looks, step.looks)
		}
	}
	took = 0
	now = now.Add(2 * maxLookAge)
	all = append(all, snapshot{revision: 2, status: rcommon.StatusDeployed, uid: "2", version: "2"})
	if err := l.Admit(t.Context(), list); !errors.As(err, new(*lease.LostError)) {
		t.Errorf("somebody else's revision: error %v", err)
	}
	if err := l.Current(); !errors.As(err, new(*lease.LostError)) {
		t.Errorf("a write after it: error %v", err)
	}
}

// TestInstalledAgain: while a run uninstalls a release whose first revisions are pruned, somebody else deletes its records and
// installs it again. The new revision has a lower number, and is not the run's (R51b).
func TestInstalledAgain(t *testing.T) {
	store, ledger := newSecretStore(), NewLedger("ns", "r")
	ours, other := driver.NewSecrets(newSecrets(store, ledger, func(string) {})), driver.NewSecrets(store)
	for n, status := range map[int]rcommon.Status{3: rcommon.StatusSuperseded, 4: rcommon.StatusDeployed} {
		_ = other.Create(keyOf(n), record(n, status))
	}
	_, _ = storage.Init(ours).History("r")
	ledger.Seal(time.Time{})
	if err := ours.Update(keyOf(4), record(4, rcommon.StatusUninstalling)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 4} {
		_, _ = other.Delete(keyOf(n))
	}
	_ = other.Create(keyOf(1), record(1, rcommon.StatusDeployed))
	_, _ = storage.Init(ours).History("r")
	var lost *lease.LostError
	if !errors.As(ledger.Lost(), &lost) || lost.Newer == nil || lost.Newer.Revision != 1 {
		t.Errorf("the run goes on: %v", ledger.Lost())
	}
}

// TestNewestRecordDeleted: somebody deletes the record of the revision that a run works on. Only if no other record is left, the
// release is uninstalled.
func TestNewestRecordDeleted(t *testing.T) {
	first := snapshot{revision: 1, status: rcommon.StatusSuperseded, uid: "1", version: "1"}
	for want, left := range map[string]Snapshots{"the release was uninstalled by somebody else": {}, "the record of revision 2 was deleted by somebody else": {first}} {
		all, l := append(Snapshots{{revision: 2, status: rcommon.StatusDeployed, uid: "2", version: "2"}}, left...), NewLedger("ns", "r")
		list := func(context.Context) (Snapshots, error) { return all, nil }
		if err := l.Look(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		l.Seal(time.Time{})
		all = left
		var lost *lease.LostError
		if err := l.Look(t.Context(), list); !errors.As(err, &lost) || lost.Why != want || lost.Newer == nil || lost.Newer.Revision != len(left) {
			t.Errorf("%v: %v", left, err)
		}
	}
}
